"""asr/hf on a tiny random Whisper: batches decode as each alone, and as the plain model would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tinymodels  # noqa: F401 - bounds the threads
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, WhisperConfig, WhisperForConditionalGeneration

from motet.components.asr.hf import HfAsr
from motet.components.asr.hfwhisper import HfWhisper
from motet.components.asr.requests import Request
from motet.components.base import Setup
from motet.components.errors import BadInput, MissingRequirement
from motet.components.loading import quiet_loading
from motet.components.mel import log_mel

pytestmark = pytest.mark.timeout(60)

SPECIALS = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|de|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
    "<|0.00|>",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whisper")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: n for n, token in enumerate(letters)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIALS])
    made.save(str(place / "tokenizer.json"))
    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=256 + len(SPECIALS),
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        pad_token_id=256,
        bos_token_id=256,
        eos_token_id=256,
        decoder_start_token_id=257,
    )
    with quiet_loading():
        model = WhisperForConditionalGeneration(config)
        with torch.no_grad():
            model.model.decoder.embed_tokens.weight.mul_(20)
        model.generation_config = GenerationConfig(
            is_multilingual=True, suppress_tokens=[3], begin_suppress_tokens=[5, 256]
        )
        model.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def engine(folder: Path) -> HfWhisper:
    return HfWhisper(folder, device="cpu", dtype="float32", threads=1)


def sound(seconds: float, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(0, 0.1, int(seconds * 16_000)).astype(np.float32)


def plain(folder: Path, request: Request, language: str) -> list[int]:
    """Greedy decoding written out: the whole prefix again for every token, no cache, no batch."""
    model = WhisperForConditionalGeneration.from_pretrained(folder).eval()
    features = torch.as_tensor(log_mel(request.samples, mels=80, frames=3000))[None]
    tokens: list[int] = []
    ids = [257, {"en": 258, "de": 259}[language], 261, 264]
    with torch.inference_mode():
        while len(tokens) < request.token_limit:
            logits = model(features, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
            logits[[3, *range(257, 266), *([] if tokens else [5, 256])]] = float("-inf")
            token = int(logits.argmax())
            if token == 256:
                break
            tokens.append(token)
            ids.append(token)
    return tokens


def test_batches_decode_as_the_plain_model_does(engine: HfWhisper, folder: Path) -> None:
    requests = [
        Request(sound(1 + n, n), language=language, max_tokens=6 + 5 * n)
        for n, language in enumerate(["en", "de", "en"])
    ]
    together = engine.decode_once(requests)
    assert [list(one.tokens) for one in together] == [
        plain(folder, request, request.language or "") for request in requests
    ]
    assert len({one.tokens for one in together}) == 3
    for request, one in zip(requests, together, strict=True):
        (alone,) = engine.decode_once([request])
        assert alone.tokens == one.tokens
        assert alone.logprob == pytest.approx(one.logprob, abs=1e-5)
        assert one.language == request.language


def test_languages_are_detected_and_contexts_of_all_lengths_share_a_batch(
    engine: HfWhisper,
) -> None:
    context = tuple(range(40, 40 + 20))
    found = engine.decode_once(
        [Request(sound(2, 1)), Request(sound(2, 2), context=context), Request(sound(2, 3))]
    )
    assert all(one.language in ("en", "de") for one in found)
    assert all(0 <= one.no_speech <= 1 for one in found)


def test_what_it_has_not_is_refused(engine: HfWhisper, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="language 'xx'"):
        engine.decode_once([Request(sound(1, 0), language="xx")])
    with pytest.raises(BadInput, match="asr/ct2 has"):
        engine.decode_once([Request(sound(1, 0), timestamps=True)])
    with pytest.raises(BadInput, match="up to 30"):
        engine.decode_once([Request(sound(31, 0))])
    with pytest.raises(MissingRequirement, match=r"no tokenizer\.json"):
        HfWhisper(tmp_path, device="cpu", dtype="float32", threads=1)
    assert "needs `model:`" in HfAsr.requirements(Setup("asr"))[0]
