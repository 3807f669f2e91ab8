"""Trains the model in the box from three Debian packages and a teacher; goes on after a kill."""

from __future__ import annotations

import argparse
import logging
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from diffusers.models.autoencoders.autoencoder_dc import AutoencoderDC
from diffusers.models.transformers.transformer_wan import WanTransformer3DModel
from torch import Tensor
from transformers import BertTokenizer, DistilBertForSequenceClassification

from . import autoencoder, captions, corpus, denoiser, glyphs, model, planner, scene, text
from .examples import Examples

_WORDS = slice(1996, 7000)


@dataclass(frozen=True, slots=True)
class Steps:
    """How long each stage runs, in optimizer steps, and how many texts the text encoder reads."""

    autoencoder: int = 660
    text: int = 800
    texts: int = 18_000
    planner: int = 8000
    denoiser: int = 3000
    decoder: int = 300


@dataclass(frozen=True, slots=True)
class Parts:
    """What the transformer is trained with; `transformer` is None where it starts from nothing."""

    vae: AutoencoderDC
    tokenizer: BertTokenizer
    text_encoder: DistilBertForSequenceClassification
    transformer: WanTransformer3DModel | None


def train(work: Path, out: Path, steps: Steps, start: Path | None = None) -> None:
    """Autoencoder, text encoder, planner, transformer, decoder again; then write all to `out`.

    Every stage keeps its state in `work` and is skipped or resumed when it finds it there. With
    `start`, a folder of finished weights, only the transformer and the decoder train further.
    """
    found, drawn = glyphs.read_glyphs()
    pictures = scene.to_tensor(drawn)
    if start is None:
        parts = _new_parts(work, found, pictures, steps)
    else:
        loaded = model.load(start)
        parts = Parts(loaded.vae, loaded.tokenizer, loaded.text_encoder, loaded.transformer)
    examples = Examples(
        found,
        corpus.looks(found, drawn),
        parts.vae,
        parts.text_encoder.distilbert,
        parts.tokenizer,
        work / "latents.pt",
    )
    trainer = denoiser.Trainer(examples, work / "denoiser.pt", steps.denoiser, parts.transformer)
    trainer.train()
    asked = pictures[torch.tensor(corpus.weights(found)) > 0]
    vae = autoencoder.refine_decoder(parts.vae, asked, work / "decoder.pt", steps.decoder)
    model.save(out, parts.tokenizer, parts.text_encoder, trainer.averaged(), vae)


def _new_parts(work: Path, found: list[glyphs.Glyph], pictures: Tensor, steps: Steps) -> Parts:
    vae = autoencoder.train_autoencoder(pictures, work / "autoencoder.pt", steps.autoencoder)
    learned = corpus.text_to_learn(found, _common_words(), steps.texts)
    tokenizer = text.build_tokenizer(learned, work / "tokenizer")
    encoder = text.train_encoder(tokenizer, learned, work / "text.pt", steps.text)
    moving = planner.build_planner(encoder)
    shown = [max(weight, 0.3) for weight in corpus.weights(found)]
    planner.train_planner(moving, tokenizer, captions.wordings(found), shown, steps.planner)
    return Parts(vae, tokenizer, moving, None)


def _common_words() -> list[str]:
    words = text.by_frequency()[_WORDS]
    return [word for word in words if word.isalpha() and word.isascii() and len(word) > 2]


def main(arguments: list[str] | None = None) -> None:
    """Run the training; the defaults ask for more steps than the weights in the box had."""
    usual = asdict(Steps())
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder for state between kills")
    parser.add_argument("--out", type=Path, default=model.folder())
    parser.add_argument("--start", type=Path, help="go on from this folder of finished weights")
    parser.add_argument("--threads", type=int, default=2)
    for stage, steps in usual.items():
        parser.add_argument(f"--{stage}", type=int, default=steps, metavar="STEPS")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    warnings.filterwarnings("ignore", message="Mismatch dtype between input and weight")
    torch.set_num_threads(given.threads)
    torch.default_generator.manual_seed(0)
    asked = Steps(**{stage: getattr(given, stage) for stage in usual})
    train(given.work, given.out, asked, given.start)


if __name__ == "__main__":
    main()
