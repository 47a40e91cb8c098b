"""A client (§1 to §3, §6): one session after the other, each over as many connections as it takes."""

from __future__ import annotations

import asyncio

from websockets.exceptions import InvalidHandshake
from websockets.legacy.client import WebSocketClientProtocol, connect
from websockets.typing import Subprotocol

from . import control
from .agreement import agreement_of, check_accept, hello
from .control import BINARY, Fields
from .errors import CLOSE_TIMEOUT, ProtocolError
from .session import Session, State
from .transport import MAX_FRAME, Fragments, Transport

ACCEPT_SECONDS = 30.0
DELAY_SECONDS = 0.01
"""Between two attempts; a client on a network waits longer, and longer each time."""
RETRYABLE = frozenset({4429, 4503})
"""Close codes behind a REJECT that does not say whether the client may come back."""


class Protocol(Fragments, WebSocketClientProtocol):
    pass


class Client:
    def __init__(self, url: str) -> None:
        self._url = url
        self._hello = hello()
        self._session: Session | None = None
        self._rejected: Fields | None = None
        """The answer to the last connection, if it was not ACCEPT."""

    async def visit(self) -> None:
        """Connects again whenever a connection has ended, until it is stopped."""
        while True:
            try:
                socket = await connect(
                    self._url,
                    create_protocol=Protocol,
                    subprotocols=[Subprotocol(BINARY)],
                    compression=None,
                    max_size=MAX_FRAME,
                    ping_interval=None,
                )
                await self._carry(Transport(socket))
            except (OSError, InvalidHandshake, asyncio.TimeoutError):
                pass
            waits = (self._rejected or {}).get("retry_after_ms") or 0
            await asyncio.sleep(max(DELAY_SECONDS, waits / 1000))

    async def _carry(self, transport: Transport) -> None:
        """One connection, from HELLO to its end."""
        transport.send(control.encode("HELLO", None, self._offer(), BINARY))
        self._rejected = None
        session: Session | None = None
        try:
            session = await self._accepted(transport)
            while session is not None:
                message = await transport.receive()
                if message is None:
                    break
                session.handle(message)
        except ProtocolError as error:
            failed = session or self._session
            transport.finish(error.close_code, error.close_reason)
            if failed is not None:
                failed.finish()
        code = await transport.ended()
        if session is not None:
            session.handle_lost(transport, code)
        elif self._rejected is not None and self._session is not None:
            # REJ-2: what is rejected for good begins anew.
            stated = self._rejected.get("retryable")
            if not (code in RETRYABLE if stated is None else stated):
                self._session.finish()

    def _offer(self) -> Fields:
        """HELLO, with what resumes the session of a lost connection."""
        session = self._session
        if session is None or session.state is not State.SUSPENDED or session.link is None:
            return self._hello
        session.attempt += 1
        resume = {
            "session_id": session.agreement.session_id,
            "token": session.token,
            "received": session.link.received,
            "attempt": session.attempt,
        }
        return {**self._hello, "resume": resume}

    async def _accepted(self, transport: Transport) -> Session | None:
        """Waits for ACCEPT. None if the server does not admit this client now."""
        while True:
            try:
                message = await asyncio.wait_for(transport.receive(), ACCEPT_SECONDS)
            except asyncio.TimeoutError:
                transport.finish(CLOSE_TIMEOUT, "no ACCEPT came")
                return None
            if message is None:
                return None
            if isinstance(message, str) or not message or not control.is_map(message[0]):
                raise ProtocolError("bad_frame", "not a control message")
            fields = control.decode(message, control.MAX_BEFORE_ACCEPT)
            if fields["type"] == "ACCEPT":
                return self._begin(transport, fields)
            if fields["type"] == "REJECT":
                self._rejected = rejected = fields.get("payload") or {}
                control.expect(rejected, "retryable", bool)
                control.expect(rejected, "retry_after_ms", int)
            if fields["type"] in ("CLOSE", "PING", "PONG", "DATA", "AUTH", "GOAWAY", "READY", "HELLO"):
                raise ProtocolError("protocol_violation", f"{fields['type']} before ACCEPT")

    def _begin(self, transport: Transport, fields: Fields) -> Session:
        payload = fields.get("payload") or {}
        session_id = control.expect(fields, "session_id", str, required=True)
        check_accept(payload)
        ticket = payload.get("resume") or {}
        window = (ticket.get("window_ms") or 0) / 1000
        lost = self._session
        if ticket.get("recovered") and lost is not None and session_id == lost.agreement.session_id:
            if lost.state is not State.SUSPENDED:
                raise ProtocolError("bad_acceptance", "the window of the session has passed")
            lost.token = ticket["token"]
            lost.window = window
            lost.attach(transport, ticket.get("received") or 0)
            return lost
        if lost is not None:
            lost.finish()
        agreement = agreement_of(session_id, payload, payload.get("extensions") or {})
        session = Session(agreement, True, transport, self._hello)
        session.token = ticket.get("token", "")
        session.window = window
        self._session = session
        return session


