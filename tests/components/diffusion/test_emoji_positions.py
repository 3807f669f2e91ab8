"""Where each latent stands on the thing: channels that move, grow and turn with it."""

from __future__ import annotations

import torch
from torch import Tensor

from motet.components.diffusion.emoji.positions import CHANNELS, with_positions
from motet.components.diffusion.emoji.scene import Pose

SIDE = 12
UNIT = 2 / SIDE


def channels(x: float = 0.0, y: float = 0.0, size: float = 1.0, degrees: float = 0.0) -> Tensor:
    """(CHANNELS, SIDE, SIDE) of one frame."""
    latents = torch.zeros(1, 16, 1, SIDE, SIDE)
    path = Pose(*(torch.tensor([[value]]) for value in (x, y, size, degrees)))
    return with_positions(latents, path)[0, 16:, 0]


def test_latents_stay_and_channels_follow() -> None:
    latents = torch.randn(2, 16, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    both = with_positions(latents)
    assert both.shape == (2, 16 + CHANNELS, 3, SIDE, SIDE)
    assert torch.equal(both[:, :16], latents)
    assert torch.equal(both[0, 16:, 0], channels())


def test_a_moved_thing_takes_its_places_with_it() -> None:
    still, moved = channels(), channels(x=2 * UNIT, y=-UNIT)
    torch.testing.assert_close(moved[:, :-1, 2:], still[:, 1:, :-2], atol=1e-5, rtol=0)


def test_a_turned_thing_turns_its_places() -> None:
    """By a quarter clockwise the top comes to the right; the last three channels say the pose."""
    still, turned = channels(), channels(degrees=90)
    torch.testing.assert_close(turned[:-3], still[:-3].rot90(-1, dims=(1, 2)), atol=1e-5, rtol=0)
    pose = torch.tensor([-1.0, 1.0, 0.0])
    torch.testing.assert_close(turned[-3:, 0, 0], pose, atol=1e-6, rtol=0)


def test_half_the_size_spreads_places_twice_as_far() -> None:
    small = channels(size=0.5)
    inside = small[12]
    assert inside.sum() == (SIDE / 2) ** 2
    assert inside[3:9, 3:9].all()
