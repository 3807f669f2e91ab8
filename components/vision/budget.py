"""How closely each picture of a prompt is looked at, so that together they stay within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import BadInput
from ..frames import ImagePart


@dataclass(frozen=True, slots=True)
class Policy:
    """Bounds in tokens. `detail` "low" takes at most `low`, "high" and "auto" at most `high`;
    no picture gets fewer than `least`, and all of a prompt together at most `total`."""

    low: int = 64
    high: int = 1280
    least: int = 16
    total: int = 8192


def allot(
    parts: Sequence[ImagePart], natural: Sequence[int], policy: Policy, *, total: int | None = None
) -> list[int | None]:
    """Tokens that each picture may take; None for frames of clips that are left out.

    `natural` is what each would take at its full size. Small ones keep what they need, the rest
    share evenly; "high" comes before "auto". Where even `least` for each is too much, frames of
    clips are thinned out evenly, their first and last kept.

    Raises:
        BadInput: the pictures that aren't frames of clips don't fit.
    """
    budget = policy.total if total is None else min(total, policy.total)
    kept = thinned(parts, budget // policy.least)
    fixed = sum(not parts[n].clip for n in kept)
    if len(kept) * policy.least > budget:
        raise BadInput(
            f"{fixed} pictures need {fixed * policy.least} tokens at least, the budget is {budget};"
            " send fewer pictures or allow more tokens",
            where="messages",
            param="messages",
        )
    wanted = {n: min(natural[n], _limit(parts[n], policy)) for n in kept}
    got: dict[int, int] = {}
    for rank in ("low", "high", "auto"):
        members = [n for n in kept if parts[n].detail == rank]
        later = sum(min(policy.least, wanted[n]) for n in kept if n not in got and n not in members)
        got |= shared({n: wanted[n] for n in members}, budget - sum(got.values()) - later)
    return [got.get(n) for n in range(len(parts))]


def _limit(part: ImagePart, policy: Policy) -> int:
    return policy.low if part.detail == "low" else policy.high


def shared(wanted: dict[int, int], budget: int) -> dict[int, int]:
    """Divide a budget: who wants less than an even share gets it all, the others the rest."""
    got: dict[int, int] = {}
    for place, (n, want) in enumerate(sorted(wanted.items(), key=lambda one: one[1])):
        even = (budget - sum(got.values())) // (len(wanted) - place)
        got[n] = min(want, even)
    return got


def thinned(parts: Sequence[ImagePart], most: int) -> list[int]:
    """The pictures that stay when there is room for `most`: only frames of clips go."""
    frames = [n for n, part in enumerate(parts) if part.clip]
    room = max(most - (len(parts) - len(frames)), min(1, len(frames)))
    chosen = {frames[n] for n in evenly(len(frames), room)}
    return [n for n, part in enumerate(parts) if not part.clip or n in chosen]


def evenly(count: int, most: int) -> list[int]:
    """At most `most` of `count` places, evenly spread, first and last among them."""
    if count <= most:
        return list(range(count))
    if most == 1:
        return [count // 2]
    return sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})
