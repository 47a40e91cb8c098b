"""One session of a client over any number of connections, without sockets, tasks or clocks (parts 2, 3 and 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from . import errors
from .agreement import Agreement, Offer
from .answer import Answer, read_answer
from .closing import Closing, ClosingHandshake
from .control import MAX_AFTER_ACCEPT, MAX_BEFORE_ACCEPT, Control, decode_control, encode_control, rejection_of
from .durable import Log
from .errors import ParlanceError, close_code_of, close_reason
from .events import (
    CredentialsEnd,
    DrainBegins,
    Established,
    Event,
    Leave,
    MoveAsked,
    Rejected,
    SessionReset,
    StreamOver,
)
from .limits import Timers
from .link import Link
from .liveness import Liveness
from .maps import Fields
from .resumption import Resumption
from .ticket import Ticket


class SessionCore:
    """The session of a client.

    Parameters
    ----------
    offer : Offer
    timers : Timers
    unix_ms : callable
        The time for the envelopes of control messages.
    nonce : callable
        Returns 16 random bytes for each session that begins (RES-15).
    save : callable, optional
        Stores the ticket with which a later process takes the session up, before the next frame is written.
    ticket : Ticket, optional
        The ticket that a former process has stored.
    """

    def __init__(
        self,
        offer: Offer,
        *,
        timers: Timers,
        unix_ms: Callable[[], int],
        nonce: Callable[[], bytes],
        save: Callable[[Ticket], None] | None = None,
        ticket: Ticket | None = None,
    ) -> None:
        self._offer = offer
        self._timers = timers
        self._unix_ms = unix_ms
        self._resumption = Resumption(offer, nonce=nonce, save=save, ticket=ticket)
        self.link: Link | None = None
        #: A connection carries the session.
        self.is_established = False
        self._is_waiting = False
        self._hello: list[bytes] = []
        self._accept_due = math.inf
        self._liveness = Liveness(timers)
        self.closing = ClosingHandshake(timers.closing)
        self.is_draining = False
        #: Seconds that have to pass after the end of a session that drains (AWAY-5).
        self.retry_after = 0.0
        self._is_renewing = False
        #: Events of commands, which `take_events` returns.
        self._events: list[Event] = []
        self.end: ParlanceError | None = None
        #: What a server that was shut down has left undone.
        self.loss: ParlanceError | None = None
        self.is_over = False

    @property
    def is_followed(self) -> bool:
        """Whether another session takes the place of this one, as its server drains."""
        return self.is_draining and not self.closing.is_final

    # --- connections

    @property
    def agreement(self) -> Agreement | None:
        """The agreement of the present session, or of the last one."""
        return self.link.agreement if self.link is not None else None

    @property
    def ticket(self) -> Ticket | None:
        """The data with which to resume now; `None` if the session cannot be resumed."""
        return self._resumption.ticket(self.link)

    def open(self, now: float, token: str | None) -> None:
        """A connection is open: HELLO is the next frame."""
        hello = self._resumption.hello(self.link, token)
        self._hello = [encode_control("HELLO", hello, session_id=None, unix_ms=self._unix_ms())]
        self._is_waiting = True
        self._accept_due = now + self._timers.accept
        self._liveness.hear(now)
        self._is_renewing = False

    def lost(self, now: float, code: int) -> list[Event]:
        """The connection has ended with this close code.

        Returns
        -------
        list of Event
            `SessionReset` if the session has ended with it; whether to come back is the caller's decision.
        """
        was_waiting = self._is_waiting
        closed_cleanly = self.closing.state.has_heard and code in (errors.NORMAL, errors.GOING_AWAY)
        self._suspend(now)
        if code == errors.DETACHED or (not self.closing.is_open and (closed_cleanly or code == errors.NORMAL)):
            return self._finish(None)
        if self.link is None or self.is_over or self._resumption.survives(code, is_waiting=was_waiting):
            return []
        return self._reset(str(code))

    def _suspend(self, now: float) -> None:
        if self.is_established:
            self._resumption.lost_at = now
        self.is_established = self._is_waiting = False
        self._accept_due = math.inf
        self._hello = []
        self.closing.lose()
        if self.link is not None:
            self.link.outbox.is_stopped = False

    def save_now(self) -> None:
        """Store what a later process needs."""
        self._resumption.store(self.link)

    def abandon(self, error: ParlanceError) -> list[Event]:
        """Fail everything that is still open: no connection will carry the session any more."""
        if self.is_over:
            return self.link.fail_streams(error, with_openings=True) if self.link is not None else []
        return self._finish(error)

    # --- input

    def receive(self, data: bytes | str, now: float) -> list[Event]:
        """Take a frame of the server.

        Returns
        -------
        list of Event
            If the frame has broken the protocol, the last one is `Leave` with the close code, and the session is over.
        """
        self._liveness.hear(now)
        try:
            return self._receive(data, now)
        except ParlanceError as error:
            return self._violated(error)

    def _receive(self, data: bytes | str, now: float) -> list[Event]:
        if isinstance(data, str) or not data:
            raise ParlanceError("bad_frame", "a text frame, or an empty one, in a session with a link")
        first = data[0]
        if 0x10 <= first <= 0x1F:
            if not self.is_established or self.link is None:
                raise ParlanceError("protocol_violation", "a link frame before ACCEPT")
            if first < 0x18 and self.closing.state.has_heard:
                raise ParlanceError("protocol_violation", "a counted frame after CLOSE")
            event = self.link.receive(data, now)
            if first == 0x18 and self._resumption.log is not None:
                self._resumption.log.confirm(self.link.outbox.acknowledged)
            events = [] if event is None else [event]
            return events if self.closing.is_open and not self.is_draining else events + self._advance(now)
        if not (0x80 <= first <= 0x8F or first in (0xDE, 0xDF)):
            raise ParlanceError("bad_frame", f"a frame that begins with {first:#x}")
        most = MAX_BEFORE_ACCEPT if self._is_waiting else MAX_AFTER_ACCEPT
        control = decode_control(data, most)
        if control is None:
            return []
        if self._is_waiting:
            return self._answered(control, now)
        session_id = self.link.agreement.session_id if self.link is not None else None
        if control.session_id not in (None, session_id):
            raise ParlanceError("protocol_violation", "a control message of another session")
        return self._controlled(control, now)

    def _violated(self, error: ParlanceError) -> list[Event]:
        code = close_code_of(error)
        error.close_code = code
        return [*self._finish(error), Leave(code, close_reason(error))]

    def _answered(self, control: Control, now: float) -> list[Event]:
        """Take the answer to HELLO."""
        if control.type == "WAIT":
            return []
        if control.type == "REJECT":
            return [Rejected(rejection_of(control))]
        if control.type != "ACCEPT":
            raise ParlanceError("protocol_violation", f"{control.type} before ACCEPT")
        answer = read_answer(self._offer, control)
        self._resumption.window = answer.window
        if not answer.recovered:
            return self._begin(answer, now)
        return self._recovered(answer, now)

    def _recovered(self, answer: Answer, now: float) -> list[Event]:
        """The session continues, with its link or with one that takes the place of it."""
        is_rebuilt = self._resumption.rebuilds
        self.link, events = self._resumption.go_on(self.link, answer)
        self._established(now)
        self.link.resume(answer.received)
        if answer.reason == "record_behind" and self.closing.is_open:
            events.insert(0, SessionReset("record_behind"))
        return [Established(answer.agreement, is_new=False, is_rebuilt=is_rebuilt), *events]

    def _begin(self, answer: Answer, now: float) -> list[Event]:
        """A new session begins; what the former one has not written moves to it if it may."""
        events: list[Event] = []
        agreement, former = answer.agreement, self.link
        reason = answer.reason or "unknown_session"
        if former is not None and not self.is_over:
            events = self._reset(reason)
        elif self._resumption.rebuilds:
            events = [SessionReset(reason)]
        self._resumption.log = Log() if agreement.has("durable") else None
        link = self.link = self._resumption.new_link(agreement, (-1, 0))
        if former is not None:
            link.take_over(former, with_messages=self.is_draining)
        self.closing = ClosingHandshake(self._timers.closing)
        self._resumption.begin(link, answer.token)
        self._established(now)
        return [*events, Established(agreement, is_new=True, is_rebuilt=False)]

    def _established(self, now: float) -> None:
        self._resumption.rebuilds = self._is_waiting = False
        # A session that this end closes for the drain is followed by another one, also if another node ends it.
        is_closing = not self.closing.is_open
        self.is_draining = self.is_draining and is_closing
        self.is_established = True
        self.is_over = False
        self.end = None
        self._accept_due = self._resumption.lost_at = math.inf
        if self.link is not None:
            self.link.outbox.holds_openings = is_closing

    # --- control messages after ACCEPT

    def _controlled(self, control: Control, now: float) -> list[Event]:
        fields = control.fields
        match control.type:
            case "PING":
                self._say("PONG", {})
            case "CLOSE":
                return self._peer_closes(fields, now)
            case "AUTH":
                self._is_renewing = False
                has_end = control.payload.get("expires_at") is not None
                ends = (fields.whole("expires_at") - control.timestamp) / 1_000 if has_end else None
                return [CredentialsEnd(ends)]
            case "GOAWAY":
                return self._go_away(fields, now)
            case "REJECT":
                error = rejection_of(control)
                error.close_code = 4403
                return [*self._finish(error), Leave(errors.NORMAL)]
            case "ACCEPT":
                raise ParlanceError("protocol_violation", "a second ACCEPT")
        return []

    def _go_away(self, fields: Fields, now: float) -> list[Event]:
        agreement = self.agreement
        self.retry_after = fields.whole("retry_after_ms") / 1_000
        fields.whole("deadline")
        if fields.flag("move") and agreement is not None and agreement.has("move"):
            return [MoveAsked(self.retry_after)]
        self.is_draining = True
        if self.link is not None:
            self.link.outbox.holds_openings = True
        return [DrainBegins(), *self._advance(now)]

    def renew(self, token: str) -> bool:
        """Present new credentials; false if the last ones were not answered yet (AUTH-4)."""
        if self._is_renewing or not self.is_established:
            return False
        self._is_renewing = True
        self._say("AUTH", {"token": token})
        return True

    def _say(self, kind: str, payload: dict[str, Any]) -> None:
        link = self.link
        if link is not None:
            session_id = link.agreement.session_id
            frame = encode_control(kind, payload, session_id=session_id, unix_ms=self._unix_ms())
            link.outbox.push_control(frame)

    # --- closing

    def close(self, now: float, *, code: str | None = None, message: str = "") -> None:
        """Close the session for the application: everything that waits is written first."""
        self.closing.is_final = True
        self._begin_to_close(now, code=code, message=message)

    def _begin_to_close(self, now: float, *, code: str | None = None, message: str = "") -> None:
        if not self.closing.is_open:
            return
        self.closing.begin(now, code=code, message=message)
        if self.link is None:
            self._events += self._finish(None)
        else:
            self.link.outbox.holds_openings = True

    def _peer_closes(self, fields: Fields, now: float) -> list[Event]:
        event = self.closing.receive(now, fields)
        if self.link is not None:
            self.link.acknowledge()
            self.link.outbox.holds_openings = True
        return [event, *self._advance(now)]

    def _advance(self, now: float) -> list[Event]:
        """Take the step of closing, or of draining, that has become possible."""
        link = self.link
        if link is None or not self.is_established:
            return []
        if self.is_draining and self.closing.is_open:
            streams = link.streams
            if streams.own or streams.peer or not link.outbox.is_empty or link.outbox.unacknowledged:
                return []
            self._begin_to_close(now)
        if self.closing.state.owes_close:
            self.closing.cut_short(now, link.outbox)
        if self.closing.state.owes_close and link.outbox.is_empty:
            if link.owes_acknowledgement:
                link.acknowledge()
            self._say("CLOSE", self.closing.payload)
            self.closing.state = self.closing.state.send()
            link.outbox.is_stopped = True
        is_done = not link.outbox.unacknowledged
        if is_done and self.closing.state is Closing.EXCHANGED:
            return [*self._finish(None), Leave(errors.NORMAL)]
        if is_done and self.closing.state is Closing.ANSWERED and not self._resumption.is_possible:
            return [*self._finish(None), Leave(errors.NORMAL)]
        return []

    def _finish(self, error: ParlanceError | None) -> list[Event]:
        """The session is over."""
        self.is_over = True
        self.end = error
        self._resumption.forget()
        if self.link is None:
            return []
        if error is None and self.is_followed:
            return self._leave_drained(self.link)
        failure = error or ParlanceError("session_closed", "the session is closed")
        return self.link.fail_streams(failure, with_openings=True)

    def _leave_drained(self, link: Link) -> list[Event]:
        """What has not begun waits for the next session; what is under way at the deadline is lost."""
        _, unknown = link.undelivered_messages()
        error = ParlanceError("session_lost", "the server was shut down", retry_after=self.retry_after)
        events = link.fail_streams(error, with_openings=False)
        if unknown == 0 and not any(isinstance(event, StreamOver) for event in events):
            return events
        self.loss = error
        return [SessionReset("goaway", unknown=unknown), *events]

    def _reset(self, reason: str) -> list[Event]:
        """The session is lost; another one may take its place."""
        link = self.link
        if link is None:
            return []
        self._resumption.forget()
        self.is_over = True
        not_sent, unknown = link.undelivered_messages()
        error = ParlanceError("session_lost", f"the session was lost ({reason})")
        return [SessionReset(reason, not_sent, unknown), *link.fail_streams(error, with_openings=False)]

    def next_frame(self, now: float) -> bytes | None:
        """Return the next frame to write on the connection, or `None`."""
        if self._hello:
            return self._hello.pop()
        if not self.is_established or self.link is None:
            return None
        frame = self.link.outbox.next_frame(now)
        if frame is None and (not self.closing.is_open or self.is_draining):
            self._events += self._advance(now)
            frame = self.link.outbox.next_frame(now)
        return frame

    def take_events(self) -> Sequence[Event]:
        """Return events that came of commands and of writing."""
        if not self._events:
            return ()
        events, self._events = self._events, []
        return events

    @property
    def due(self) -> float:
        """When `handle_timeout` has something to do; infinity if never."""
        due = min(self._accept_due, self.closing.due, self._resumption.window_end)
        if self.is_established and self.link is not None:
            due = min(due, self.link.due, self._ping_due, self.closing.stall_due)
        return due

    @property
    def _ping_due(self) -> float:
        link = self.link
        return self._liveness.due(waits=link is not None and bool(link.outbox.unacknowledged))

    def handle_timeout(self, now: float) -> list[Event]:
        """Do what is due."""
        if now >= self.closing.due:
            self.closing.due = math.inf
            return [*self._finish(None), Leave(errors.NORMAL)]
        if now >= self._accept_due:
            self._accept_due = math.inf
            return [Leave(errors.TIMEOUT, "no answer to HELLO")]
        if now >= self._resumption.window_end and not self.is_established:
            self._resumption.lost_at = math.inf
            return self._reset("window_passed")
        if not self.is_established or self.link is None:
            return []
        self.link.handle_timeout(now)
        if now >= self.closing.stall_due:
            return self._advance(now)
        if now >= self._ping_due:
            if not self._liveness.ask(now):
                return [Leave(errors.TIMEOUT, "nothing was heard")]
            self._say("PING", {})
        return []
