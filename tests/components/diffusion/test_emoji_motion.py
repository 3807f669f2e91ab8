"""What clips are trained on and measured by: each motion's path shows as that motion alone."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from motet.components.diffusion.emoji import checkpoint, common, scene
from motet.components.diffusion.emoji.captions import Wording, caption, without_colour, wordings
from motet.components.diffusion.emoji.glyphs import Glyph
from motet.components.diffusion.emoji.motion import CLIP_FRAMES, MOTIONS, PHRASES, pose
from motet.components.diffusion.emoji.movement import measure, motion_shown
from motet.components.diffusion.emoji.retrieval import Gallery

BOTH = {"roll right": {"right", "spin"}, "roll left": {"left", "spin back"}, "still": set()}


def thing() -> np.ndarray:
    """A lopsided shape of two colours, as straight RGBA."""
    picture = Image.new("RGBA", (136, 136))
    pen = ImageDraw.Draw(picture)
    pen.rectangle((38, 10, 70, 126), fill=(200, 30, 30, 255))
    pen.rectangle((38, 90, 112, 126), fill=(30, 30, 200, 255))
    return np.asarray(picture)


@pytest.mark.parametrize("motion", MOTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_a_motion_is_measured_as_itself_and_nothing_else(motion: str, seed: int) -> None:
    path = pose(motion, random.Random(seed))
    frames = (scene.render(scene.to_tensor(thing()[None]), path) + 1) / 2
    assert frames.shape == (CLIP_FRAMES, 3, scene.FRAME_PX, scene.FRAME_PX)
    assert motion_shown(measure(frames)) == BOTH.get(motion, {motion})


def test_measured_places_are_those_that_were_drawn() -> None:
    square = np.zeros((136, 136, 4), np.uint8)
    square[...] = (255, 0, 0, 255)
    x, y = torch.tensor([-0.4, 0.1]), torch.tensor([0.3, -0.2])
    size, degrees = torch.tensor([0.5, 0.25]), torch.zeros(2)
    frames = scene.render(scene.to_tensor(square[None]), scene.Pose(x, y, size, degrees))
    found = measure((frames + 1) / 2)
    torch.testing.assert_close(found.x, x, atol=0.01, rtol=0)
    torch.testing.assert_close(found.y, y, atol=0.01, rtol=0)
    torch.testing.assert_close(found.size, size, atol=0.02, rtol=0)


def test_a_still_glyph_fills_the_frame_in_its_own_colours() -> None:
    frame = scene.render(scene.to_tensor(thing()[None]), scene.Pose.still())[0]
    rgb = ((frame + 1) * 127.5).round()
    assert rgb[:, 48, 38].tolist() == [200, 30, 30]
    assert rgb[:, 76, 70].tolist() == [30, 30, 200]
    assert rgb[:, 5, 5].tolist() == [255, 255, 255]


@pytest.mark.parametrize(("colour", "strongest"), [("red", 0), ("green", 1), ("blue", 2)])
def test_recolouring_turns_the_main_colour_only(colour: str, strongest: int) -> None:
    picture = np.zeros((40, 40, 4), np.uint8)
    picture[:30] = (230, 180, 20, 255)
    picture[30:] = (90, 90, 90, 255)
    hue = scene.dominant_hue(picture)
    assert hue is not None
    assert scene.colour_of(hue) in {"orange", "yellow"}
    painted = scene.recolour(picture, hue, colour)
    assert painted[0, 0, :3].argmax() == strongest
    assert painted[35, 0].tolist() == [90, 90, 90, 255]


def test_grey_things_have_no_main_colour() -> None:
    picture = np.full((40, 40, 4), 128, np.uint8)
    assert scene.dominant_hue(picture) is None


def test_captions_name_the_thing_its_colour_and_its_motion() -> None:
    rng = random.Random(0)
    wording = Wording("red apple", ("apple",), ("fruity",))
    for motion in MOTIONS:
        phrases = {phrase for phrases in PHRASES[motion] for phrase in phrases}
        for _ in range(20):
            text = caption(wording, rng, colour="blue", motion=motion)
            assert "blue" in text
            assert "red" not in text.split()
            assert any(phrase in text for phrase in phrases)


def test_a_shared_keyword_names_nothing() -> None:
    glyphs = [
        Glyph(char, name, ("shared", f"only {name}"), "Objects", "tool")
        for char, name in zip("abc", ("saw", "axe", "pick"), strict=True)
    ]
    assert [wording.keywords for wording in wordings(glyphs)] == [
        ("only saw",),
        ("only axe",),
        ("only pick",),
    ]
    assert without_colour("red apple") == "apple"
    assert without_colour("rocket") == "rocket"
    assert without_colour("red") == "red"


def test_evaluation_asks_for_two_hundred_names_and_every_motion_equally() -> None:
    assert len(set(common.COMMON_NAMES)) == 200
    asked = [motion for _, motion in common.clip_prompts(100)]
    assert {asked.count(motion) for motion in asked} == {10}
    assert len({prompt for prompt, _ in common.clip_prompts(100)}) == 100


def test_ranks_count_nearer_pictures() -> None:
    frames = torch.stack([torch.full((3, 32, 32), value) for value in (0.0, 0.5, 1.0)])
    gallery = Gallery(["black", "grey", "white"], frames)
    picture = torch.full((1, 3, 96, 96), 0.4)
    assert gallery.nearest(picture) == ["grey"]
    assert [gallery.ranks(picture, [name])[0] for name in gallery.names] == [1, 0, 2]


def test_a_checkpoint_survives_and_refuses_code(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    assert checkpoint.restore(path) is None
    checkpoint.save(path, {"step": 3, "weight": torch.ones(2)})
    state = checkpoint.restore(path)
    assert state is not None
    assert state["step"] == 3
    assert [file.name for file in tmp_path.iterdir()] == ["state.pt"]
    torch.save({"step": Path("x")}, path)
    with pytest.raises(Exception, match="Weights only load failed"):
        checkpoint.restore(path)
