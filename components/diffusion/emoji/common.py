"""What the evaluation asks for: two hundred common names, and prompts for a hundred clips."""

from __future__ import annotations


def _names(listed: str) -> tuple[str, ...]:
    return tuple(" ".join(name.split()) for name in listed.split(","))


COMMON_NAMES = _names(
    """
    red apple, banana, lemon, strawberry, grapes, watermelon, pineapple, cherries, peach, pear,
    tomato, carrot, broccoli, mushroom, avocado, eggplant, ear of corn, hot pepper, potato,
    onion, bread, croissant, pretzel, pancakes, cheese wedge, bacon, hamburger, french fries,
    pizza, hot dog, sandwich, taco, burrito, egg, popcorn, sushi, doughnut, cookie, birthday
    cake, cupcake, chocolate bar, candy, lollipop, ice cream, soft ice cream, honey pot, hot
    beverage, wine glass, beer mug, tropical drink, dog face, cat face, mouse face, hamster,
    rabbit face, fox, bear, panda, koala, tiger face, lion, cow face, pig face, frog, monkey
    face, chicken, penguin, bird, duck, eagle, owl, bat, wolf, horse face, unicorn, honeybee,
    butterfly, snail, lady beetle, ant, spider, turtle, snake, lizard, t-rex, octopus, squid,
    shrimp, crab, lobster, fish, tropical fish, dolphin, spouting whale, shark, crocodile,
    elephant, giraffe, camel, kangaroo, rose, tulip, sunflower, cactus, palm tree, evergreen
    tree, maple leaf, four leaf clover, bouquet, cherry blossom, star, sun, crescent moon,
    cloud, rainbow, umbrella, snowflake, snowman, fire, droplet, high voltage, tornado, volcano,
    house, castle, tent, church, hospital, ferris wheel, roller coaster, automobile, taxi, bus,
    ambulance, fire engine, police car, tractor, racing car, motorcycle, bicycle, skateboard,
    airplane, rocket, flying saucer, helicopter, sailboat, ship, anchor, locomotive, soccer
    ball, basketball, american football, baseball, volleyball, bowling, trophy, bullseye, kite,
    game die, teddy bear, video game, artist palette, guitar, violin, trumpet, drum, saxophone,
    microphone, headphone, television, camera, laptop, mobile phone, telephone, light bulb,
    candle, books, envelope, pencil, scissors, key, locked, hammer, wrench, bomb, magnet, alarm
    clock, hourglass done, balloon, wrapped gift, christmas tree, jack-o-lantern, ghost, robot,
    alien, skull, pile of poo, red heart, thumbs up, crown
    """
)

THINGS_THAT_MOVE = _names(
    """
    rocket, cat face, automobile, airplane, red apple, dog face, teddy bear, guitar, key,
    umbrella, snail, penguin, jack-o-lantern, trophy, fish, butterfly, hammer, rose, banana,
    crown, helicopter, turtle, bell, rabbit face, owl
    """
)

MEASURED_MOTIONS = {
    "up": ("flying up", "moving up"),
    "down": ("falling down", "moving down"),
    "left": ("moving left", "going to the left"),
    "right": ("moving right", "going to the right"),
    "grow": ("growing", "getting bigger"),
    "shrink": ("shrinking", "getting smaller"),
    "spin": ("spinning", "rotating"),
    "shake": ("shaking", "trembling"),
    "bounce": ("bouncing", "jumping"),
    "swing": ("swinging", "rocking from side to side"),
}


def clip_prompts(count: int = 100) -> list[tuple[str, str]]:
    """`count` pairs of a prompt and the motion it asks for, every motion equally often."""
    motions = list(MEASURED_MOTIONS)
    prompts: list[tuple[str, str]] = []
    for number in range(count):
        motion = motions[number % len(motions)]
        turn = number // len(motions)
        thing = THINGS_THAT_MOVE[(number * 7 + turn) % len(THINGS_THAT_MOVE)]
        words = MEASURED_MOTIONS[motion][turn % 2]
        article = "an" if thing[0] in "aeiou" else "a"
        prompts.append((f"{article} {thing} {words}", motion))
    return prompts
