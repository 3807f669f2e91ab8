"""embed/text against plain transformers: same vectors alone, in a batch, cut and shortened."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
import torch
from running import ask
from transformers import AutoModel, AutoTokenizer

from motet.components.base import Context, Resources, Setup
from motet.components.embed.encoder import TextEncoder, pool, shorten
from motet.components.embed.text import TextEmbedder
from motet.components.errors import BadInput
from motet.components.frames import Embedding, Frame, TextInput
from motet.components.models import bundled_path

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXTS = [
    "A cat sits on the mat.",
    "The committee postponed its decision until the next quarter, for want of figures.",
    "Yes.",
    "Grüße aus Köln",
]


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    """Vectors by the recipe of the model's card: mean over tokens, then normalise."""
    folder = str(bundled_path("all-minilm-l6-v2"))
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModel.from_pretrained(folder).eval()
    vectors: dict[str, np.ndarray] = {}
    with torch.inference_mode():
        for text in TEXTS:
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
            mean = hidden.mean(0)
            vectors[text] = (mean / mean.norm()).numpy()
    return vectors


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder() -> AsyncIterator[TextEmbedder]:
    component = TextEmbedder(Setup("embed", resources=Resources(1)))
    await component.load()
    yield component
    await component.close()


async def embed(component: TextEmbedder, *texts: TextInput) -> list[Embedding]:
    return [frame for frame in await ask(component, *texts) if isinstance(frame, Embedding)]


async def test_vectors_are_the_references_alone_and_together(
    embedder: TextEmbedder, reference: dict[str, np.ndarray]
) -> None:
    alone = [(await embed(embedder, TextInput(text)))[0].vector for text in TEXTS]
    together = await embed(embedder, *(TextInput(text, n) for n, text in enumerate(TEXTS)))
    assert [one.index for one in together] == list(range(len(TEXTS)))
    for text, single, batched in zip(TEXTS, alone, together, strict=True):
        np.testing.assert_allclose(single, reference[text], atol=1e-5)
        np.testing.assert_allclose(batched.vector, reference[text], atol=1e-5)


async def test_meaning_is_near(embedder: TextEmbedder) -> None:
    texts = ["A dog runs in the park.", "A puppy plays outdoors.", "Interest rates rose again."]
    dog, puppy, rates = [one.vector for one in await embed(embedder, *map(TextInput, texts))]
    assert dog @ puppy > 2 * max(0.1, dog @ rates)


async def test_concurrent_requests_share_batches(embedder: TextEmbedder) -> None:
    batcher = embedder._batcher
    assert batcher is not None
    before = batcher.batches
    await asyncio.gather(*(embed(embedder, TextInput(f"text {n}")) for n in range(32)))
    assert batcher.batches - before <= 4


async def test_a_caller_who_waits_for_each_vector_gets_it(embedder: TextEmbedder) -> None:
    came = asyncio.Semaphore(1)

    async def one_by_one() -> AsyncIterator[Frame]:
        for n in range(3):
            await came.acquire()
            yield TextInput(f"text {n}", n)

    async with asyncio.timeout(30):
        async for frame in embedder.run(one_by_one(), Context()):
            assert isinstance(frame, Embedding)
            came.release()


async def test_dimensions_are_cut_and_normalised(embedder: TextEmbedder) -> None:
    whole, short = await embed(
        embedder, TextInput(TEXTS[0]), TextInput(TEXTS[0], 1, {"dimensions": 64})
    )
    assert short.vector.shape == (64,)
    np.testing.assert_allclose(np.linalg.norm(short.vector), 1, atol=1e-6)
    np.testing.assert_allclose(short.vector, shorten(whole.vector, 64))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TextInput("word " * 1000), "1002 tokens, the model takes 256"),
        (TextInput("word " * 10_000), "50000 characters, the model takes 256"),
        (TextInput("x", 0, {"dimensions": 4000}), "the model has 384"),
        (TextInput("", 0, {"tokens": [1, 10**6]}), "tokens are 0 to"),
        (TextInput("x", 0, {"dimension": 3}), "dimension"),
    ],
)
async def test_bad_texts_say_what_is_possible(
    embedder: TextEmbedder, text: TextInput, said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        await embed(embedder, text)
    assert len(await embed(embedder, TextInput("good"))) == 1


async def test_long_texts_are_cut_when_asked(embedder: TextEmbedder) -> None:
    (one,) = await embed(embedder, TextInput("word " * 1000, 0, {"truncate": True}))
    assert one.tokens == 256


async def test_long_texts_are_tokenised_off_the_event_loop(
    embedder: TextEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = embedder._encoder
    assert encoder is not None
    seen: dict[int, threading.Thread] = {}
    tokenise = encoder.tokenise

    def watched(text: str, *, truncate: bool) -> Any:
        seen[len(text)] = threading.current_thread()
        return tokenise(text, truncate=truncate)

    monkeypatch.setattr(encoder, "tokenise", watched)
    cut = {"truncate": True}
    short, long = "word ", "word " * 1000
    both = await embed(embedder, TextInput(short, 0, cut), TextInput(long, 1, cut))
    assert [one.tokens for one in both] == [3, 256]
    assert seen[len(short)] is threading.main_thread()
    assert seen[len(long)] is not threading.main_thread()


async def test_texts_are_cut_and_not_cut_at_the_same_time(embedder: TextEmbedder) -> None:
    encoder = embedder._encoder
    assert encoder is not None
    text = "word " * 200 + "and more " * 100
    whole = "word " * 250

    def tokens(n: int) -> int:
        return len(encoder.tokenise(text if n % 2 else whole, truncate=bool(n % 2)).ids)

    counts = await asyncio.gather(*(asyncio.to_thread(tokens, n) for n in range(64)))
    assert counts == [252, 256] * 32


async def test_loading_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    TextEncoder(bundled_path("all-minilm-l6-v2"))
    assert capfd.readouterr() == ("", "")


async def test_tokens_stand_for_their_text(embedder: TextEmbedder) -> None:
    encoder = embedder._encoder
    assert encoder is not None
    ids = list(encoder.tokenise(TEXTS[0], truncate=False).ids)
    by_text, by_tokens = await embed(
        embedder, TextInput(TEXTS[0]), TextInput("", 1, {"tokens": ids})
    )
    np.testing.assert_allclose(by_text.vector, by_tokens.vector, atol=1e-6)


async def test_pooling_ignores_padding() -> None:
    hidden = torch.tensor([[[1.0, 8.0], [3.0, 2.0], [99.0, 99.0]]])
    mask = torch.tensor([[True, True, False]])
    assert pool(hidden, mask, "mean").tolist() == [[2.0, 5.0]]
    assert pool(hidden, mask, "max").tolist() == [[3.0, 8.0]]
    assert pool(hidden, mask, "last").tolist() == [[3.0, 2.0]]
    assert pool(hidden, mask, "cls").tolist() == [[1.0, 8.0]]
