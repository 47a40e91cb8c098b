"""One session of either end (§3, §6): control messages, closing, and the connections that carry it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from enum import Enum

from . import control
from .agreement import Agreement
from .behaviours import Behaviours
from .control import BINARY, Fields
from .errors import CLOSE_NORMAL, ProtocolError
from .link import Link
from .transport import Transport

CLOSING_SECONDS = 5.0
WINDOW_SECONDS = 120.0
LOST_CODES = frozenset({1001, 1005, 1006, 1011, 1012, 1013, 1014, 4408})
"""RES-1: after these only the connection is lost."""


class State(Enum):
    ESTABLISHED = "established"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class Session:
    def __init__(self, agreement: Agreement, is_client: bool, transport: Transport, hello: Fields) -> None:
        self.agreement = agreement
        self.hello = hello
        self.state = State.ESTABLISHED
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_over: Callable[[Session], None] | None = None
        self.token = ""
        self.window = WINDOW_SECONDS
        """Seconds for which the session survives without a connection (RES-11)."""
        self.previous_token: str | None = None
        """At a server: still valid, until the first link frame arrives (§6)."""
        self.attempt = 0
        self._transport: Transport = transport
        self._is_client = is_client
        self._behaviours = Behaviours(self)
        self.link: Link | None = None
        if agreement.own is not None:
            self.link = Link(agreement, is_client, self._transmit, self._behaviours)
        self._closing: Fields | None = None
        """The payload of this end's CLOSE, once it wants to close."""
        self._has_begun = False
        self._said_close = False
        self._peer_closes = False
        self._timer: asyncio.TimerHandle | None = None

    # Connections

    def attach(self, transport: Transport, received: int) -> None:
        """Continues over another connection, after ACCEPT."""
        self._stop_timer()
        self._transport = transport
        self.state = State.ESTABLISHED
        self._said_close = False
        if self.link is not None:
            self.link.resume(received)
        if self._closing is not None:
            self._start_closing_timer()
            self._close_on()

    def take_over(self, code: int, reason: str) -> None:
        """A newer connection carries the session."""
        self._transport.finish(code, reason)

    def handle_lost(self, transport: Transport, code: int) -> None:
        """The connection has ended (§6, when a connection is lost)."""
        if transport is not self._transport or self.state is State.CLOSED:
            return
        left_page = code == 1001 and self._peer_closes
        if code in LOST_CODES and self.agreement.resumes and not left_page:
            self.state = State.SUSPENDED
            self._stop_timer()
            self._timer = asyncio.get_running_loop().call_later(self.window, self.finish)
        else:
            self.finish()

    def finish(self) -> None:
        """The session is over, and its token with it (SES-4)."""
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        self._stop_timer()
        if self.link is not None:
            self.link.end()
        if self.on_over is not None:
            self.on_over(self)
        if not self.over.done():
            self.over.set_result(None)

    def fail(self, error: ProtocolError) -> None:
        """The peer has broken the protocol."""
        self._transport.finish(error.close_code, error.close_reason)
        self.finish()

    # Messages

    def handle(self, message: bytes | str) -> None:
        """Takes a message of the connection; raises what breaks the protocol."""
        if isinstance(message, bytes) and message and 0x10 <= message[0] <= 0x1F and self.link is not None:
            self.previous_token = None
            self.link.handle(message)
        elif isinstance(message, str) is (self._transport.subprotocol != BINARY) and (
            isinstance(message, str) or (message and control.is_map(message[0]))
        ):
            self._control(control.decode(message, control.MAX_AFTER_ACCEPT))
        else:
            raise ProtocolError("bad_frame", "a frame that must not be here")
        if self._closing is not None:
            self._close_on()

    def _control(self, fields: Fields) -> None:
        if fields.get("session_id") not in (None, self.agreement.session_id):
            raise ProtocolError("bad_message", "the ID of another session")
        kind = fields["type"]
        if kind == "PING":
            self._say("PONG", {})
        elif kind == "CLOSE":
            self._peer_has_closed()
        elif kind == "DATA" and self._transport.subprotocol == BINARY:
            # DATA-2
            raise ProtocolError("protocol_violation", "DATA in m2m.v1")
        elif kind == "HELLO" or (kind == "ACCEPT") or (kind in ("WAIT", "REJECT", "GOAWAY") and not self._is_client):
            raise ProtocolError("protocol_violation", f"{kind} must not come now")
        elif kind == "REJECT":
            self.finish()

    def _transmit(self, frame: bytes) -> None:
        if self.state is State.ESTABLISHED:
            self._transport.send(frame)

    def _say(self, kind: str, payload: Fields) -> None:
        if self.state is State.ESTABLISHED:
            self._transport.send(control.encode(kind, self.agreement.session_id, payload, self._transport.subprotocol))

    # Closing (§3)

    def close(self, code: str | None = None, message: str = "") -> None:
        """This end begins to close."""
        if self._closing is not None:
            return
        self._has_begun = True
        stated = {} if code is None else {"code": code}
        self._begin({"reason": "NORMAL", "message": message, **stated})

    def _peer_has_closed(self) -> None:
        """SES-9: everything is acknowledged at once."""
        self._peer_closes = True
        if self.link is not None:
            self.link.peer_has_closed = True
            self.link.acknowledge()
        if self._closing is None:
            self._begin({"reason": "NORMAL", "message": ""})

    def _begin(self, payload: Fields) -> None:
        self._closing = payload
        self._behaviours.stop()
        self._start_closing_timer()
        self._close_on()

    def _close_on(self) -> None:
        """SES-6, SES-8: CLOSE when everything is written, and 1000 when everything is acknowledged."""
        if self.state is not State.ESTABLISHED or self._closing is None:
            return
        if not self._said_close and (self.link is None or self.link.outbox.is_empty):
            self._said_close = True
            self._say("CLOSE", self._closing)
        is_done = self.link is None or self.link.outbox.is_acknowledged
        closes_itself = self._has_begun or not self.agreement.resumes
        if self._said_close and self._peer_closes and is_done and closes_itself:
            self._transport.finish(CLOSE_NORMAL, "NORMAL")
            self.finish()

    def _start_closing_timer(self) -> None:
        """SES-12."""
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(CLOSING_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._transport.finish(CLOSE_NORMAL, "NORMAL")
        self.finish()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def new_token() -> str:
    return secrets.token_urlsafe(24)
