"""The closing handshake of one end (part 3)."""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from .events import PeerCloses
from .frames import cut
from .maps import Fields

if TYPE_CHECKING:
    from .outbox import Outbox

_REASONS: Final = frozenset({"NORMAL", "TIMEOUT", "ERROR", "CLIENT_SHUTDOWN", "SERVER_SHUTDOWN"})
_MAX_REASON: Final = 65_536


class Closing(Enum):
    """How far one end has come."""

    OPEN = "open"
    BEGUN = "begun"
    SENT = "sent"
    RECEIVED = "received"
    EXCHANGED = "exchanged"
    ASKED = "asked"
    ANSWERED = "answered"

    @property
    def owes_close(self) -> bool:
        """Whether this end sends CLOSE when nothing waits any more."""
        return self in _AFTER_SENDING

    @property
    def has_heard(self) -> bool:
        """Whether CLOSE has arrived, on any connection."""
        return self in (Closing.RECEIVED, Closing.EXCHANGED, Closing.ASKED, Closing.ANSWERED)

    def begin(self) -> Closing:
        """This end begins to close."""
        return Closing.BEGUN if self is Closing.OPEN else self

    def send(self) -> Closing:
        """This end has sent CLOSE."""
        return _AFTER_SENDING.get(self, self)

    def receive(self) -> Closing:
        """CLOSE has arrived."""
        return _AFTER_RECEIVING.get(self, self)

    def lose(self) -> Closing:
        """The connection is lost, and CLOSE has to be sent again."""
        return _AFTER_LOSS.get(self, self)


_AFTER_SENDING = {
    Closing.BEGUN: Closing.SENT,
    Closing.RECEIVED: Closing.EXCHANGED,
    Closing.ASKED: Closing.ANSWERED,
}
_AFTER_RECEIVING = {
    Closing.OPEN: Closing.ASKED,
    Closing.BEGUN: Closing.RECEIVED,
    Closing.SENT: Closing.EXCHANGED,
}
_AFTER_LOSS = {
    Closing.SENT: Closing.BEGUN,
    Closing.EXCHANGED: Closing.RECEIVED,
    Closing.ANSWERED: Closing.ASKED,
}


class ClosingHandshake:
    """The closing of one session: how far it has come, what CLOSE says, and when it is given up (SES-12)."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self.state = Closing.OPEN
        self.payload: dict[str, Any] = {"reason": "NORMAL", "message": ""}
        self.due = math.inf
        #: When streams that the peer does not read are cut short, and how many of their bodies were.
        self.stall_due = math.inf
        self.cut = 0
        #: No session follows: the application closes, or CLOSE of the server has a code (CLOSE-1).
        self.is_final = False

    @property
    def is_open(self) -> bool:
        """Whether neither end closes."""
        return self.state is Closing.OPEN

    def begin(self, now: float, *, code: str | None, message: str) -> None:
        """This end begins to close."""
        self.payload = {"reason": "NORMAL", "message": cut(message, 1_024), "code": code}
        self.state = self.state.begin()
        self.due = now + self._timeout

    def lose(self) -> None:
        """The connection is lost; the next one brings the credit that the peer has granted."""
        self.state, self.stall_due = self.state.lose(), math.inf

    def cut_short(self, now: float, outbox: Outbox) -> None:
        """Drop streams of which the peer has read nothing for a tenth of the time, if only these are left."""
        stalled = outbox.stalled
        self.stall_due = min(self.stall_due, now + self._timeout / 10) if stalled else math.inf
        if now >= self.stall_due:
            self.stall_due = math.inf
            for stream in stalled:
                self.cut += len(stream.queue)
                outbox.clear(stream)

    def receive(self, now: float, fields: Fields) -> PeerCloses:
        """CLOSE has arrived."""
        reason = fields.text("reason", _MAX_REASON) or "NORMAL"
        message = fields.text("message", 1_024) or ""
        code = fields.text("code", 64, 1)
        self.is_final |= code is not None
        self.state = self.state.receive()
        self.due = min(self.due, now + self._timeout)
        return PeerCloses(reason if reason in _REASONS else "NORMAL", message, code)
