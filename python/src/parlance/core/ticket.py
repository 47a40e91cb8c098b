"""The data with which to resume a session, in this process or a later one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from .maps import whole_of


@dataclass(frozen=True, slots=True)
class Have:
    """Bodies of a durable session, counted over all connections and processes (extension `durable`).

    Attributes
    ----------
    messages : int
        One-way messages of the server that were received whole.
    sent, written : int
        Own one-way messages that were acknowledged, and that were written to their end.
    opened, heard : int
        The largest stream IDs that the client and the server have opened.
    streams : tuple of int
        Three numbers for each open request: its ID, the chunks that were received whole, and flags.
    """

    messages: int = 0
    sent: int = 0
    written: int = 0
    opened: int = 0
    heard: int = 0
    streams: tuple[int, ...] = ()

    def as_map(self) -> dict[str, Any]:
        """Return it as it travels."""
        return asdict(self) | {"streams": list(self.streams)}


@dataclass(frozen=True, slots=True)
class Ticket:
    """The newest token of a session, with the counts that HELLO states beside it."""

    session_id: str
    token: str
    received: int = 0
    attempt: int = 0
    have: Have | None = None

    def resume(self, *, rebuild: bool = False) -> dict[str, Any]:
        """Return the map `resume` of a HELLO."""
        value: dict[str, Any] = {
            "session_id": self.session_id,
            "token": self.token,
            "received": self.received,
            "attempt": self.attempt,
        }
        if rebuild:
            value["rebuild"] = True
        if self.have is not None:
            have = replace(self.have, streams=()) if rebuild else self.have
            value["have"] = have.as_map()
        return value

    def as_json(self) -> dict[str, Any]:
        """Return it as a store keeps it."""
        value = self.resume()
        if self.have is not None:
            value["have"] = replace(self.have, streams=()).as_map()
        return value

    @classmethod
    def from_json(cls, value: object) -> Self | None:
        """Read what `as_json` has returned; `None` if it is anything else."""
        if not isinstance(value, Mapping):
            return None
        session_id, token = value.get("session_id"), value.get("token")
        received, attempt = whole_of(value.get("received")), whole_of(value.get("attempt"))
        if not isinstance(session_id, str) or not isinstance(token, str) or received is None or attempt is None:
            return None
        have = value.get("have")
        counts: Have | None = None
        if have is not None:
            if not isinstance(have, Mapping):
                return None
            numbers = [whole_of(have.get(name)) for name in ("messages", "sent", "written", "opened", "heard")]
            messages, sent, written, opened, heard = numbers
            if messages is None or sent is None or written is None or opened is None or heard is None:
                return None
            counts = Have(messages, sent, written, opened, heard)
        return cls(session_id, token, received, attempt, counts)
