"""The parts of one realtime session, wired to each other."""

from __future__ import annotations

from collections.abc import Callable

from ...pipelines.conversation import Conversation
from ...pipelines.playback import Playback
from ...pipelines.turns import TurnTaking
from .effects import MakeId, Outbox
from .listening import Listening
from .response import Response
from .responses import Responses
from .settings import Offer, Settings
from .timings import Timings

TRANSCRIPT_LIMIT_S = 30.0


class State:
    """What the handlers of a session share. `settings` is replaced whole, never changed."""

    def __init__(
        self,
        offer: Offer,
        settings: Settings,
        new_id: MakeId,
        over: Callable[[Response, float], None],
        playback: Playback | None = None,
    ) -> None:
        self.offer = offer
        self.settings = settings
        self.outbox = Outbox(new_id)
        self.conversation = Conversation(offer.conversation.max_items)
        self.playback = Playback() if playback is None else playback
        self.turns = TurnTaking()
        self.timings = Timings()
        self.responses = Responses(self.outbox, self.conversation, self.playback, offer, over)
        self.listening = Listening(
            self.outbox,
            self.conversation,
            self.turns,
            lambda: self.settings,
            TRANSCRIPT_LIMIT_S,
        )
