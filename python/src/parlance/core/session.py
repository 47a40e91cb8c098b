"""One session of a client over any number of connections, without sockets, tasks or clocks (parts 2, 3 and 6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from . import errors
from .agreement import Agreement, Offer, read_agreement
from .closing import Closing
from .control import MAX_AFTER_ACCEPT, MAX_BEFORE_ACCEPT, Control, decode_control, encode_control
from .durable import Log, read_kept
from .errors import ParlanceError, close_code_of, close_reason
from .events import (
    CredentialsEnd,
    DrainBegins,
    Established,
    Event,
    Leave,
    MoveAsked,
    PeerCloses,
    Rejected,
    RequestCancelled,
    SessionReset,
    StreamOver,
)
from .limits import Timers
from .link import Link
from .maps import Fields, Map
from .streams import Stream
from .ticket import Ticket

#: Unanswered PINGs after which a connection is given up.
_MAX_PINGS: Final = 3
_CLOSE_REASONS: Final = frozenset({"NORMAL", "TIMEOUT", "ERROR", "CLIENT_SHUTDOWN", "SERVER_SHUTDOWN"})


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
        Stores what a later process needs to take the session up, before the next frame is written.
    ticket : Ticket, optional
        What a former process has stored.
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
        self._new_nonce = nonce
        self._nonce: bytes | None = None
        self._save = save
        self._ticket = ticket
        #: The first HELLO takes up what a former process has left.
        self._takes_up = ticket is not None
        self.link: Link | None = None
        self._log: Log | None = None
        self._window = 0.0
        self._lost_at = math.inf
        #: A connection carries the session.
        self.is_established = False
        self._is_waiting = False
        self._hello: list[bytes] = []
        self._accept_due = math.inf
        self._heard_at = 0.0
        self._pinged_at = math.inf
        self._pings = 0
        self.closing = Closing.OPEN
        self._close_payload: dict[str, Any] = {"reason": "NORMAL", "message": ""}
        self._closing_due = math.inf
        self.is_draining = False
        #: Seconds that have to pass after the end of a session that drains (AWAY-5).
        self.retry_after = 0.0
        self.is_sent_away = False
        self._is_renewing = False
        #: Events of commands, which `take_events` returns.
        self._events: list[Event] = []
        self.end: ParlanceError | None = None
        self.is_over = False

    # --- connections

    @property
    def agreement(self) -> Agreement | None:
        """What was agreed on in the present session, or the last one."""
        return self.link.agreement if self.link is not None else None

    @property
    def ticket(self) -> Ticket | None:
        """What resuming takes now; `None` if the session cannot be resumed."""
        ticket, link = self._ticket, self.link
        if ticket is None or link is None:
            return ticket
        have = self._log.have(link) if self._log is not None else None
        return replace(ticket, received=link.received, have=have)

    def open(self, now: float, token: str | None) -> None:
        """A connection is open: HELLO is the next frame."""
        hello = self._offer.hello()
        if token is not None:
            hello["auth"] = {"token": token}
        ticket = self.ticket
        if ticket is not None:
            ticket = self._ticket = replace(ticket, attempt=ticket.attempt + 1)
            self._store(ticket)
            hello["resume"] = ticket.resume(rebuild=self._takes_up)
        elif self._offer.extensions.get("resume") is not None:
            self._nonce = self._nonce or self._new_nonce()
            hello["nonce"] = self._nonce
        self._hello = [encode_control("HELLO", hello, session_id=None, unix_ms=self._unix_ms())]
        self._is_waiting = True
        self._accept_due = now + self._timers.accept
        self._heard_at = now
        self._pinged_at, self._pings = math.inf, 0
        self._is_renewing = False

    def leave(self, now: float) -> None:
        """The session is to continue over another connection, which is open; this one is not read any more."""
        self._suspend(now)

    def lost(self, now: float, code: int) -> list[Event]:
        """The connection has ended with this close code.

        Returns
        -------
        list of Event
            `SessionReset` if the session has ended with it; whether to come back is the caller's decision.
        """
        was_waiting = self._is_waiting
        closed_cleanly = self.closing.has_heard and code in (errors.NORMAL, errors.GOING_AWAY)
        self._suspend(now)
        if self.closing is not Closing.OPEN and (closed_cleanly or code == errors.NORMAL):
            return self._finish(None)
        survives = code in errors.LOST_CONNECTION
        if was_waiting:
            survives = survives or code in errors.COME_BACK or code in (errors.STALE_ATTEMPT, errors.UNAUTHENTICATED)
        if self.link is None or self.is_over or (self._ticket is not None and survives):
            return []
        return self._reset(str(code))

    def _suspend(self, now: float) -> None:
        if self.is_established:
            self._lost_at = now
        self.is_established = self._is_waiting = False
        self._accept_due = math.inf
        self._hello = []
        self.closing = self.closing.lose()
        if self.link is not None:
            self.link.outbox.is_stopped = False

    def _store(self, ticket: Ticket) -> None:
        if self._save is not None:
            self._save(ticket)

    def save_now(self) -> None:
        """Store what a later process needs."""
        self._before_ack(0)

    def abandon(self, error: ParlanceError) -> list[Event]:
        """Fail everything that is still open: no connection will carry the session any more."""
        if self.is_over:
            return self._fail_streams(error, with_openings=True)
        return self._finish(error)

    def _before_ack(self, received: int) -> None:
        ticket = self.ticket
        if ticket is not None:
            self._store(ticket)

    # --- input

    def receive(self, data: bytes | str, now: float) -> list[Event]:
        """Take a frame of the server.

        Returns
        -------
        list of Event
            If the frame has broken the protocol, the last one is `Leave` with the close code, and the session is over.
        """
        self._heard_at = now
        self._pinged_at, self._pings = math.inf, 0
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
            if self.closing.has_heard and first < 0x18:
                raise ParlanceError("protocol_violation", "a counted frame after CLOSE")
            event = self.link.receive(data, now)
            if self._log is not None and first == 0x18:
                self._log.confirm(self.link.outbox.acknowledged)
            events = [] if event is None else [event]
            return events if self.closing is Closing.OPEN and not self.is_draining else events + self._advance(now)
        if not (0x80 <= first <= 0x8F or first in (0xDE, 0xDF)):
            raise ParlanceError("bad_frame", f"a frame that begins with {first:#x}")
        most = MAX_BEFORE_ACCEPT if self._is_waiting else MAX_AFTER_ACCEPT
        control = decode_control(data, most)
        if control is None:
            return []
        if self._is_waiting:
            return self._answered(control, now)
        if control.session_id is not None and self.link is not None:
            if control.session_id != self.link.agreement.session_id:
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
            return [Rejected(_rejection(control))]
        if control.type != "ACCEPT":
            raise ParlanceError("protocol_violation", f"{control.type} before ACCEPT")
        agreement = read_agreement(self._offer, control)
        if not agreement.has("resume"):
            return self._begin(agreement, None, now)
        payload = control.fields.map("resume")
        if payload is None:
            raise ParlanceError("bad_acceptance", "ACCEPT without resume, which it agrees on")
        fields = Fields(payload, "resume")
        token = fields.required_text("token", 256)
        self._window = fields.whole("window_ms") / 1_000
        reason = fields.text("reason", 128)
        if not fields.flag("recovered"):
            self._window = fields.whole("window_ms") / 1_000
            return self._begin(agreement, token, now, reason)
        ticket = self._ticket
        if ticket is None or ticket.session_id != agreement.session_id:
            raise ParlanceError("bad_acceptance", "a session that this client did not name is recovered")
        return self._recovered(ticket, agreement, token, fields, reason, now)

    def _recovered(
        self, ticket: Ticket, agreement: Agreement, token: str, fields: Fields, reason: str | None, now: float
    ) -> list[Event]:
        rebuilt = fields.map("rebuilt")
        link = self.link
        was_taken_up = self._takes_up
        events: list[Event] = []
        if was_taken_up:
            if rebuilt is None:
                raise ParlanceError("bad_acceptance", "a session that was not rebuilt")
            events += self._take_up(ticket, agreement, rebuilt)
        elif link is None or agreement != link.agreement:
            raise ParlanceError("bad_acceptance", "the agreement of a session has changed")
        elif rebuilt is not None:
            events += self._rebuild(link, agreement, rebuilt)
        self._ticket = replace(self.ticket or ticket, token=token)
        self._established(now)
        if self.link is not None:
            self.link.resume(fields.whole("received"))
        if reason == "record_behind" and self.closing is Closing.OPEN:
            events.insert(0, SessionReset("record_behind"))
        self._store(self._ticket)
        return [Established(agreement, is_new=False, is_taken_up=was_taken_up), *events]

    def _new_link(self, agreement: Agreement, last: tuple[int, int]) -> Link:
        before_ack = self._before_ack if self._save is not None else None
        link = self.link = Link(agreement, self._offer.limits, before_ack=before_ack, last=last)
        if self._log is not None:
            save = None if self._save is None else lambda: self._before_ack(link.received)
            self._log.attach(link, save)
        return link

    def _begin(
        self, agreement: Agreement, token: str | None, now: float, reason: str | None = None
    ) -> list[Event]:
        """A new session begins; what the former one has not written moves to it if it may."""
        events: list[Event] = []
        former = self.link
        if former is not None and not self.is_over:
            events = self._reset(reason or "unknown_session")
        elif self._takes_up:
            events = [SessionReset(reason or "unknown_session")]
        self._nonce = None
        self._log = Log() if agreement.has("durable") else None
        link = self._new_link(agreement, (-1, 0))
        if former is not None:
            for body in former.messages.queue:
                if body.at < 0 and (body.retry or self.is_draining):
                    link.send(body.renew())
            for stream in former.outbox.openings:
                stream.send_limit = agreement.link.stream_window
                link.outbox.push_opening(stream, stream.queue.popleft())
        self.closing = Closing.OPEN
        self._closing_due = math.inf
        self._takes_up = False
        self._ticket = None
        if token is not None:
            self._ticket = Ticket(agreement.session_id, token)
            self._store(self._ticket)
        self._established(now)
        return [*events, Established(agreement, is_new=True, is_taken_up=False)]

    def _established(self, now: float) -> None:
        self._takes_up = self._is_waiting = self.is_draining = False
        self.is_established = True
        self.is_over = False
        self.end = None
        self._accept_due = self._lost_at = math.inf
        self._heard_at = now
        if self.link is not None:
            self.link.outbox.holds_openings = False

    def _take_up(self, ticket: Ticket, agreement: Agreement, rebuilt: Map) -> list[Event]:
        """Go on with the session of a former process (extension `rebuild`)."""
        fields = Fields(rebuilt, "rebuilt")
        last = fields.whole("stream")
        interrupted = tuple(fields.wholes("cancelled", 4_096))
        have, kept = ticket.have, read_kept(rebuilt)
        handled = 0
        if agreement.has("durable"):
            if kept is None or kept[1] or (have is not None and kept[0] < have.sent):
                raise ParlanceError("bad_acceptance", "the counts of a durable session do not fit")
            handled = kept[0]
            self._log = Log(handled)
        link = self._new_link(agreement, (last if last & 1 else -1, 0))
        link.messages_written = handled
        link.messages_received = have.messages if have is not None else 0
        return [SessionReset("reloaded", interrupted=interrupted)] if interrupted else []

    def _rebuild(self, former: Link, agreement: Agreement, rebuilt: Map) -> list[Event]:
        """Go on with another process of the server, which has the session from its record (extension `durable`)."""
        kept = read_kept(rebuilt)
        log = self._log
        if kept is None or log is None:
            raise ParlanceError("bad_acceptance", "a rebuilt link that was not asked for")
        handled, again = kept
        messages = log.again(handled, former.messages_written)
        streams = former.streams
        link = self._new_link(agreement, (streams.last_own, streams.last_peer))
        link.messages_written = handled
        link.messages_received = former.messages_received
        for body in [*messages, *(body.renew() for body in former.messages.queue)]:
            link.send(body)
        events: list[Event] = []
        for stream in streams:
            if stream.id:
                events += self._carry_over(link, stream, stream.id in again)
        for stream in former.outbox.openings:
            link.outbox.push_opening(stream, stream.queue.popleft())
        return events

    def _carry_over(self, link: Link, stream: Stream, comes_again: bool) -> list[Event]:
        if not stream.is_own:
            stream.is_over = True  # its handler goes on, and what it answers is dropped (DUR-6)
            return []
        if stream.is_tensor:
            stream.is_over = True
            return [StreamOver(stream, ParlanceError("interrupted", "the process of the server has died"))]
        request = stream.request or (stream.queue[0] if stream.queue else None)
        limits, peer = self._offer.limits, link.agreement.link
        stream.sent = stream.received = stream.consumed = stream.body_start = 0
        stream.send_limit, stream.receive_limit = peer.stream_window, limits.stream_window
        stream.assembly = None
        stream.queue.clear()
        stream.is_ready = False
        link.streams.open_own(stream, stream.id)
        if comes_again and request is not None:
            stream.is_request_complete = False
            link.outbox.push(stream, request.renew())
        if stream.is_cancelled:
            stream.is_cancelled = False
            link.cancel(stream)
        return []

    # --- control messages after ACCEPT

    def _controlled(self, control: Control, now: float) -> list[Event]:
        fields = control.fields
        match control.type:
            case "PING":
                self._say("PONG", {})
            case "CLOSE":
                return self._peer_closes(fields, now)
            case "AUTH":
                return self._credentials(control, fields)
            case "GOAWAY":
                return self._go_away(fields, now)
            case "REJECT":
                error = _rejection(control)
                error.close_code = 4403
                return [*self._finish(error), Leave(errors.NORMAL)]
            case "ACCEPT":
                raise ParlanceError("protocol_violation", "a second ACCEPT")
        return []

    def _credentials(self, control: Control, fields: Fields) -> list[Event]:
        self._is_renewing = False
        if control.payload.get("expires_at") is None:
            return [CredentialsEnd(None)]
        return [CredentialsEnd((fields.whole("expires_at") - control.timestamp) / 1_000)]

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

    def close(self, now: float, *, code: str | None = None, message: str = "", reason: str = "NORMAL") -> None:
        """Begin to close the session: everything that waits is written first."""
        if self.closing is not Closing.OPEN:
            return
        self._close_payload = {"reason": reason, "message": message, "code": code}
        self.closing = self.closing.begin()
        self._closing_due = now + self._timers.closing
        if self.link is not None:
            self.link.outbox.holds_openings = True
        if self.link is None:
            self._events += self._finish(None)

    def _peer_closes(self, fields: Fields, now: float) -> list[Event]:
        reason = fields.text("reason", MAX_BEFORE_ACCEPT) or "NORMAL"
        message = fields.text("message", 1_024) or ""
        code = fields.text("code", 64, 1)
        #: With a code the server has sent this client away (CLOSE-1).
        self.is_sent_away = code is not None
        self.closing = self.closing.receive()
        self._closing_due = min(self._closing_due, now + self._timers.closing)
        if self.link is not None:
            self.link.acknowledge()
            self.link.outbox.holds_openings = True
        known = reason if reason in _CLOSE_REASONS else "NORMAL"
        return [PeerCloses(known, message, code), *self._advance(now)]

    def _advance(self, now: float) -> list[Event]:
        """Take the step of closing, or of draining, that has become possible."""
        link = self.link
        if link is None or not self.is_established:
            return []
        if self.is_draining and self.closing is Closing.OPEN:
            streams = link.streams
            if streams.own or streams.peer or not link.outbox.is_empty or link.outbox.unacknowledged:
                return []
            self.close(now)
        if self.closing.owes_close and link.outbox.is_empty:
            if link.owes_acknowledgement:
                link.acknowledge()
            self._say("CLOSE", self._close_payload)
            self.closing = self.closing.send()
            link.outbox.is_stopped = True
        is_done = not link.outbox.unacknowledged
        if is_done and self.closing is Closing.EXCHANGED:
            return [*self._finish(None), Leave(errors.NORMAL)]
        if is_done and self.closing is Closing.ANSWERED and self._ticket is None:
            return [*self._finish(None), Leave(errors.NORMAL)]
        return []

    def _finish(self, error: ParlanceError | None) -> list[Event]:
        """The session is over."""
        self.is_over = True
        self.end = error
        events: list[Event] = []
        if not (self.is_draining and error is None):
            failure = error or ParlanceError("session_closed", "the session is closed")
            events = self._fail_streams(failure, with_openings=True)
        else:
            events = self._fail_streams(ParlanceError("session_closed", "the server has shut down"), with_openings=False)
        self._ticket = None
        return events

    def _reset(self, reason: str) -> list[Event]:
        """The session is lost; another one may take its place."""
        link = self.link
        if link is None:
            return []
        self._ticket = None
        self.is_over = True
        error = ParlanceError("session_lost", f"the session was lost ({reason})")
        not_sent, unknown = link.undelivered_messages()
        kept = sum(body.retry and body.at < 0 for body in link.messages.queue)
        events = self._fail_streams(error, with_openings=False)
        return [SessionReset(reason, not_sent - kept, unknown), *events]

    def _fail_streams(self, error: ParlanceError, *, with_openings: bool) -> list[Event]:
        link = self.link
        if link is None:
            return []
        events: list[Event] = []
        for stream in link.streams:
            if stream.id == 0:
                continue
            link.streams.close(stream)
            if not stream.is_own:
                stream.is_cancelled = True
                events.append(RequestCancelled(stream))
            elif not stream.is_cancelled:
                events.append(StreamOver(stream, error))
        if with_openings:
            while link.outbox.openings:
                stream = link.outbox.openings.popleft()
                stream.is_over = True
                events.append(StreamOver(stream, error))
        return events

    # --- output and time

    def next_frame(self, now: float) -> bytes | None:
        """Return the next frame to write on the connection, or `None`."""
        if self._hello:
            return self._hello.pop()
        if not self.is_established or self.link is None:
            return None
        frame = self.link.outbox.next_frame(now)
        if frame is None and (self.closing is not Closing.OPEN or self.is_draining):
            self._events += self._advance(now)
            frame = self.link.outbox.next_frame(now)
        return frame

    def take_events(self) -> list[Event]:
        """Return events that came of commands and of writing."""
        events, self._events = self._events, []
        return events

    @property
    def due(self) -> float:
        """When `handle_timeout` has something to do; infinity if never."""
        due = min(self._accept_due, self._closing_due, self._window_end)
        if self.is_established and self.link is not None:
            due = min(due, self.link.due, self._ping_due)
        return due

    @property
    def _window_end(self) -> float:
        return self._lost_at + self._window if self._ticket is not None else math.inf

    @property
    def suspended_until(self) -> float:
        """When the session is lost if no connection resumes it."""
        return self._window_end

    @property
    def _ping_due(self) -> float:
        if self._pinged_at != math.inf:
            return self._pinged_at + self._timers.pong
        link, timers = self.link, self._timers
        waits = link is not None and bool(link.outbox.unacknowledged)
        return self._heard_at + (timers.ping_waiting if waits else timers.ping_interval)

    def handle_timeout(self, now: float) -> list[Event]:
        """Do what is due."""
        events: list[Event] = []
        if now >= self._closing_due:
            self._closing_due = math.inf
            return [*self._finish(None), Leave(errors.NORMAL)]
        if now >= self._accept_due:
            self._accept_due = math.inf
            return [Leave(errors.TIMEOUT, "no answer to HELLO")]
        if now >= self._window_end and not self.is_established:
            self._lost_at = math.inf
            return self._reset("window_passed")
        if not self.is_established or self.link is None:
            return events
        self.link.handle_timeout(now)
        if now >= self._ping_due:
            self._pings += 1
            if self._pings > _MAX_PINGS:
                return [Leave(errors.TIMEOUT, "nothing was heard")]
            self._pinged_at = now
            self._say("PING", {})
        return events


def _rejection(control: Control) -> ParlanceError:
    fields = control.fields
    code = fields.text("code", MAX_BEFORE_ACCEPT) or "UNKNOWN"
    message = fields.text("message", 1_024) or ""
    retry_after = fields.whole("retry_after_ms") / 1_000
    retryable = fields.flag("retryable") if control.payload.get("retryable") is not None else None
    error = ParlanceError("rejected", f"{code}: {message}" if message else code, retry_after=retry_after)
    # Without `retryable`, the close code that follows decides.
    error.data = {"code": code, "retryable": retryable}
    error.retryable = bool(retryable)
    return error
