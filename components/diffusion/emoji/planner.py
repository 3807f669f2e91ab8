"""Plans from a prompt's words where the thing of a clip stands in each of its frames."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional
from transformers import BertTokenizer, DistilBertForSequenceClassification, DistilBertModel

from . import captions, motion, text
from .scene import COLOURS, Pose

_FIELDS = ("x", "y", "log size", "half turns")
OUTPUTS = len(_FIELDS) * motion.CLIP_FRAMES
_LEAST, _MOST = -2.5, 0.7
_PLAIN_SHARE = 0.1
_ROCKING_DEGREES, _SHORTFALL = 60.0, 2.1
_CAPTIONS, _BATCH, _RATE = 48_000, 256, 2e-3
log = logging.getLogger(__name__)


def build_planner(encoder: DistilBertModel) -> DistilBertForSequenceClassification:
    """`encoder` with an untrained head; it reads the state at [CLS], one output a field and frame.

    The class is transformers' own, so that a diffusers folder can hold it; its labels say what
    each output is.
    """
    labels = [f"{field}, frame {frame}" for field in _FIELDS for frame in range(motion.CLIP_FRAMES)]
    config = encoder.config
    config.num_labels = OUTPUTS
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: number for number, label in enumerate(labels)}
    config.problem_type = "regression"
    planner = DistilBertForSequenceClassification(config)
    planner.distilbert = encoder
    return planner.eval()


@torch.no_grad()
def plan(planner: DistilBertForSequenceClassification, states: Tensor, frames: int) -> Pose:
    """The path, with fields (N, `frames`), that text states (N, T, 256) ask for."""
    values = _values(planner, states.to(planner.classifier.weight.dtype)).float()
    values = values.view(len(values), len(_FIELDS), motion.CLIP_FRAMES)
    if frames != motion.CLIP_FRAMES:
        values = functional.interpolate(values, frames, mode="linear", align_corners=True)
    x, y, log_size, half_turns = values.unbind(dim=1)
    return Pose(x, y, log_size.clamp(_LEAST, _MOST).exp(), half_turns * 180)


def told(path: Pose) -> Pose:
    """`path` as the transformer has to hear it: thirty degrees to and fro, which it was trained on
    far less than on whole turns, it draws about half as far as it is told."""
    rocks = path.degrees.abs().amax(dim=-1, keepdim=True) < _ROCKING_DEGREES
    return replace(path, degrees=torch.where(rocks, path.degrees * _SHORTFALL, path.degrees))


def _values(planner: DistilBertForSequenceClassification, states: Tensor) -> Tensor:
    return planner.classifier(torch.relu(planner.pre_classifier(states[:, 0])))


def train_planner(
    planner: DistilBertForSequenceClassification,
    tokenizer: BertTokenizer,
    wordings: Sequence[captions.Wording],
    weights: Sequence[float],
    steps: int,
) -> None:
    """Teach the head the paths of captions; the encoder below stays as it is."""
    rng = random.Random(3)
    drawn = [_example(rng.choices(wordings, weights)[0], rng) for _ in range(_CAPTIONS)]
    paths = torch.stack([_target(path) for _, path in drawn])
    prompts = [prompt for prompt, _ in drawn]
    with torch.autocast("cpu", torch.bfloat16):
        read = [
            text.encode(planner.distilbert, tokenizer, prompts[start : start + _BATCH])[:, :1]
            for start in range(0, len(prompts), _BATCH)
        ]
    states = torch.cat(read).float()
    head = [*planner.pre_classifier.parameters(), *planner.classifier.parameters()]
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(head, _RATE, weight_decay=0.01)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = _RATE * (1 - step / steps)
        chosen = torch.randint(len(states), (_BATCH,))
        loss = functional.mse_loss(_values(planner, states[chosen]), paths[chosen])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]
        if step % 500 == 0:
            log.info("planner step %d/%d loss %.5f", step, steps, float(loss.detach()))


def _example(wording: captions.Wording, rng: random.Random) -> tuple[str, Pose]:
    colour = rng.choice(COLOURS) if rng.random() < 0.15 else None
    if rng.random() < _PLAIN_SHARE:
        # Words that ask for no motion get none; neither does no word at all.
        prompt = "" if rng.random() < 0.1 else captions.caption(wording, rng, colour=colour)
        return prompt, motion.pose("still", rng)
    moves = rng.choices(motion.MOTIONS, motion.WEIGHTS)[0]
    path = motion.pose(moves, rng)
    return captions.caption(wording, rng, colour=colour, motion=moves), path


def _target(path: Pose) -> Tensor:
    return torch.cat([path.x, path.y, path.size.log(), path.degrees / 180])
