"""The policy: how closely pictures are looked at in a budget, and which frames of clips stay."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import BadInput
from motet.components.frames import ImagePart
from motet.components.pixels import Size
from motet.components.vision.budget import Policy, allot, evenly
from motet.components.vision.looking import Looking

POLICY = Policy(low=64, high=1000, least=10, total=4000)


def part(detail: str = "auto", clip: int = 0) -> ImagePart:
    return ImagePart(b"", detail, clip=clip)  # type: ignore[arg-type]


def test_few_pictures_are_looked_at_as_asked() -> None:
    parts = [part("low"), part("high"), part()]
    assert allot(parts, [900, 900, 2000], POLICY) == [64, 900, 1000]


def test_many_share_evenly_and_small_ones_keep_what_they_need() -> None:
    parts = [part() for _ in range(5)]
    assert allot(parts, [20, 1000, 1000, 1000, 1000], POLICY, total=420) == [20, 100, 100, 100, 100]


def test_closely_looked_at_pictures_come_first() -> None:
    assert allot([part("high"), part()], [500, 500], POLICY, total=600) == [500, 100]


def test_frames_of_clips_are_thinned_out_evenly_pictures_never() -> None:
    parts = [part(clip=1) for _ in range(9)] + [part()]
    kept = allot(parts, [500] * 10, POLICY, total=60)
    assert [n for n, tokens in enumerate(kept) if tokens is not None] == [0, 2, 4, 6, 8, 9]
    with pytest.raises(BadInput, match="7 pictures need 70 tokens"):
        allot([part() for _ in range(7)], [500] * 7, POLICY, total=60)


wants = st.lists(
    st.tuples(st.sampled_from(["low", "high", "auto"]), st.integers(0, 2), st.integers(1, 3000)),
    min_size=1,
    max_size=40,
)


@given(wants, st.integers(400, 5000))
def test_a_budget_is_kept_and_everyone_sees_something(
    asked: list[tuple[str, int, int]], total: int
) -> None:
    parts = [part(detail, clip) for detail, clip, _ in asked]
    natural = [want for _, _, want in asked]
    kept = allot(parts, natural, POLICY, total=total)
    given_out = [tokens for tokens in kept if tokens is not None]
    assert sum(given_out) <= min(total, POLICY.total)
    for one, tokens, want in zip(parts, kept, natural, strict=True):
        if tokens is None:
            assert one.clip
        else:
            assert min(want, POLICY.least) <= tokens <= want


@given(st.integers(0, 300), st.integers(1, 300))
def test_evenly_keeps_the_ends(count: int, most: int) -> None:
    places = evenly(count, most)
    assert len(places) == min(count, most) == len(set(places))
    if min(count, most) > 1:
        assert (places[0], places[-1]) == (0, count - 1)
        gaps = [b - a for a, b in pairwise(places)]
        assert max(gaps) - min(gaps) <= 1


@given(st.integers(20, 4000), st.integers(20, 4000), st.integers(4, 1280))
def test_settings_never_exceed_what_was_allotted(width: int, height: int, tokens: int) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    looking = Looking("qwen", 28, fewest=3136, most=1280 * 784)
    size = Size(width, height)
    if max(width, height) > 100 * min(width, height):
        return
    bounds = looking.settings(size, tokens).get("size")
    low, high = (3136, 1280 * 784)
    if bounds is not None:
        low, high = bounds["shortest_edge"], bounds["longest_edge"]
    tall, wide = smart_resize(height, width, 28, low, high)
    if bounds is None:
        assert tall * wide // 784 == looking.natural(size)
    if tall > 28 and wide > 28:  # the narrowest possible picture is one token wide
        assert tall * wide // 784 <= tokens


@given(st.integers(20, 4000), st.integers(20, 4000), st.integers(1, 20))
def test_tiles_stay_within_what_was_allotted(width: int, height: int, tiles: int) -> None:
    looking = Looking("idefics", 364, 81, most=4 * 364)
    size = Size(width, height)
    tokens = tiles * 81
    chosen = looking.settings(size, tokens)
    if not chosen:
        assert looking.natural(size) <= tokens
    elif chosen["do_image_splitting"]:
        edge = chosen["size"]["longest_edge"]
        assert looking._tiled(size, edge) <= tokens
