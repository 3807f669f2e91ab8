"""The input audio buffer: a client's audio on its way into the pipeline's standing stream."""

from __future__ import annotations

from ...components.frames import Audio, Clear, Commit, Samples, TurnSettings
from ...pipelines.conversation import Item
from .codec import AudioDecoder, AudioFormat
from .effects import Feed
from .faults import ClientError
from .state import State

MIN_COMMIT_MS = 100.0
# One append may hold minutes of audio: the pipeline gets it in pieces that nothing waits long for.
_MAX_FRAME_MS = 200


class InputBuffer:
    """Counts all audio of the session, and what of it isn't committed yet; keeps none of it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._decoder = AudioDecoder(state.settings.input_format)
        self.position_ms = 0.0
        self._since_ms = 0.0

    @property
    def buffered_ms(self) -> float:
        """How much came since the last commit or clear."""
        return self.position_ms - self._since_ms

    def use(self, format: AudioFormat) -> None:
        """What follows comes in this format."""
        if format != self._decoder.format:
            self._decoder = AudioDecoder(format)

    def append(self, audio: str, now_s: float) -> None:
        """Pass audio on; there is no acknowledgement.

        Raises:
            ClientError: it isn't base64, or too long.
        """
        self.hear(self._decoder.push(audio), self._decoder.format.rate_hz, now_s)

    def hear(self, pcm: Samples, rate_hz: int, now_s: float) -> None:
        """Pass on samples, however they came."""
        self._feed(pcm, rate_hz)
        self._state.timings.arrived(self.position_ms, now_s)

    def commit(self, now_s: float) -> None:
        """End the utterance here.

        Raises:
            ClientError: there is less than 100 ms to commit.
        """
        if self.buffered_ms < MIN_COMMIT_MS:
            raise ClientError(
                "input_audio_buffer_commit_empty",
                "Error committing input audio buffer: buffer too small. Expected at least "
                f"{MIN_COMMIT_MS:.0f}ms of audio, but buffer only has {self.buffered_ms:.2f}ms.",
            )
        self.committed(self.position_ms)
        self._state.listening.commit(self.position_ms, now_s)
        self._state.outbox.add(Feed(Commit()))

    def committed(self, until_ms: float) -> None:
        """The audio up to here belongs to an item now."""
        self._since_ms = max(self._since_ms, min(until_ms, self.position_ms))

    def clear(self) -> None:
        """Throw away what isn't committed."""
        self._decoder = AudioDecoder(self._decoder.format)
        self._since_ms = self.position_ms
        self._state.outbox.add(Feed(Clear()))
        self._state.outbox.send("input_audio_buffer.cleared")

    def injectable(self, audio: str) -> Samples:
        """Audio that came inside an item, ready for `inject`.

        Raises:
            ClientError: it isn't base64, or live audio is in the buffer that it would mix with.
        """
        waiting = self._state.settings.detection is None and self.buffered_ms > 0
        if self._state.listening.speaking or waiting:
            raise ClientError(
                "invalid_value",
                "An item with audio can't be added while the input buffer holds live audio; "
                "commit or clear it first, or send the audio's transcript along.",
                "item.content",
            )
        return AudioDecoder(self._state.settings.input_format).push(audio)

    def inject(self, item: Item, samples: Samples, now_s: float) -> None:
        """Have an item's audio transcribed, as a commit of its own."""
        state = self._state
        before_ms = self.position_ms
        state.outbox.add(Feed(Clear()))
        state.outbox.add(Feed(TurnSettings(mode="manual")))
        self._feed(samples, state.settings.input_format.rate_hz)
        state.outbox.add(Feed(Commit()))
        state.outbox.add(Feed(state.settings.turn_settings()))
        state.listening.promise(item, now_s)
        state.listening.shift_ms += self.position_ms - before_ms
        self._since_ms = self.position_ms

    def _feed(self, samples: Samples, rate_hz: int) -> None:
        step = rate_hz * _MAX_FRAME_MS // 1000
        for start in range(0, len(samples), step):
            audio = Audio(samples[start : start + step], rate_hz, self.position_ms)
            self._state.outbox.add(Feed(audio))
            self.position_ms += audio.duration_ms
