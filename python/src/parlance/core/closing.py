"""The closing handshake of one end (part 3)."""

from __future__ import annotations

from enum import Enum


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
