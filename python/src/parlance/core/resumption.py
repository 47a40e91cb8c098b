"""Resumes a session, takes one up after a restart, and begins one only once (part 6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from . import errors
from .agreement import Agreement, Offer
from .answer import Answer
from .durable import Log
from .errors import ParlanceError
from .events import Event, SessionReset
from .link import Link
from .rebuilding import carry_over, rebuild
from .ticket import Ticket


class Resumption:
    """The token of the session, and what HELLO says beside it.

    Parameters
    ----------
    nonce : callable
        Returns 16 random bytes for each session that begins (RES-15).
    save : callable, optional
        Stores a ticket for a later process, before the next frame is written.
    ticket : Ticket, optional
        The ticket that a former process has stored.
    """

    def __init__(
        self,
        offer: Offer,
        *,
        nonce: Callable[[], bytes],
        save: Callable[[Ticket], None] | None,
        ticket: Ticket | None,
    ) -> None:
        self._offer = offer
        self._new_nonce = nonce
        self._nonce: bytes | None = None
        self._save = save
        self._ticket = ticket
        #: The next HELLO takes up what a former process has left.
        self.rebuilds = ticket is not None
        #: Seconds for which the session survives without a connection, and since when it has none.
        self.window = 0.0
        self.lost_at = math.inf
        #: The bodies of a durable session that may have to be written again.
        self.log: Log | None = None

    @property
    def is_possible(self) -> bool:
        """Whether the session can be resumed."""
        return self._ticket is not None

    @property
    def window_end(self) -> float:
        """When the session is lost if no connection resumes it; infinity if it has one."""
        return self.lost_at + self.window if self._ticket is not None else math.inf

    def ticket(self, link: Link | None) -> Ticket | None:
        """Return what resuming takes now, `None` if the session cannot be resumed."""
        ticket = self._ticket
        if ticket is None or link is None:
            return ticket
        have = self.log.have(link) if self.log is not None else None
        return replace(ticket, received=link.received, have=have)

    def hello(self, link: Link | None, token: str | None) -> dict[str, Any]:
        """Return the payload of HELLO; it uses up an attempt (RES-3)."""
        hello = self._offer.hello()
        if token is not None:
            hello["auth"] = {"token": token}
        ticket = self.ticket(link)
        if ticket is not None:
            ticket = self._ticket = replace(ticket, attempt=ticket.attempt + 1)
            self._store(ticket)
            hello["resume"] = ticket.resume(rebuild=self.rebuilds)
        elif "resume" in self._offer.extensions:
            self._nonce = self._nonce or self._new_nonce()
            hello["nonce"] = self._nonce
        return hello

    def new_link(self, agreement: Agreement, last: tuple[int, int]) -> Link:
        """Return a link that stores what a later process needs before it acknowledges anything."""
        if self._save is None:
            link = Link(agreement, self._offer.limits, last=last)
        else:
            link = Link(agreement, self._offer.limits, before_ack=lambda _: self.store(link), last=last)
        if self.log is not None:
            self.log.attach(link, None if self._save is None else lambda: self.store(link))
        return link

    def go_on(self, link: Link | None, answer: Answer) -> tuple[Link, list[Event]]:
        """Return the link with which the session continues, and what was lost with the former one.

        Raises
        ------
        ParlanceError
            `bad_acceptance`.
        """
        agreement, rebuilt, ticket = answer.agreement, answer.rebuilt, self._ticket
        events: list[Event] = []
        if ticket is None or ticket.session_id != agreement.session_id:
            raise ParlanceError("bad_acceptance", "a session that this client did not name is recovered")
        if self.rebuilds:
            if rebuilt is None:
                raise ParlanceError("bad_acceptance", "a session that was not rebuilt")
            self.log, last, interrupted = rebuild(ticket, agreement, rebuilt)
            link = self.new_link(agreement, (last, 0))
            link.messages_written = self.log.sent if self.log is not None else 0
            link.receiver.messages = ticket.have.messages if ticket.have is not None else 0
            if interrupted:
                events = [SessionReset("reloaded", interrupted=interrupted)]
        elif link is None or agreement != link.agreement:
            raise ParlanceError("bad_acceptance", "the agreement of a session has changed")
        elif rebuilt is not None:
            if self.log is None:
                raise ParlanceError("bad_acceptance", "a rebuilt link that was not asked for")
            former, link = link, self.new_link(agreement, (link.streams.last_own, link.streams.last_peer))
            events = carry_over(former, link, self.log, rebuilt)
        self._ticket = replace(ticket, token=answer.token or ticket.token)
        self.store(link)
        return link, events

    def survives(self, code: int, *, is_waiting: bool) -> bool:
        """Whether the session survives the end of a connection with this code, perhaps before the answer to HELLO."""
        if not self.is_possible:
            return False
        passes = code in errors.COME_BACK or code in (errors.STALE_ATTEMPT, errors.UNAUTHENTICATED)
        return code in errors.LOST_CONNECTION or (is_waiting and passes)

    def begin(self, link: Link, token: str | None) -> None:
        """A session begins."""
        self._nonce = None
        self._ticket = None if token is None else Ticket(link.agreement.session_id, token)
        self.store(link)

    def forget(self) -> None:
        """The session is over."""
        self._ticket = None

    def store(self, link: Link | None) -> None:
        """Store what a later process needs."""
        ticket = self.ticket(link)
        if ticket is not None:
            self._store(ticket)

    def _store(self, ticket: Ticket) -> None:
        if self._save is not None:
            self._save(ticket)
