"""A server (§1 to §3, §6)."""

from __future__ import annotations

import asyncio
import hmac
import http
import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from websockets.legacy.server import WebSocketServerProtocol, serve
from websockets.typing import Subprotocol

from . import control
from .agreement import Agreement, accept, agreement_of, check_hello, common_algorithms, same_offer
from .control import BINARY, JSON_ENVELOPES, Fields
from .errors import CLOSE_BAD_FRAME, CLOSE_FORBIDDEN, CLOSE_STALE_ATTEMPT, CLOSE_TAKEN_OVER, CLOSE_TIMEOUT, ProtocolError
from .session import WINDOW_SECONDS, Session, new_token
from .transport import MAX_FRAME, Fragments, Transport

HELLO_SECONDS = 10.0
VERSIONS = ("1", "3")
"""The numbers that may stand before the first dot of the version."""
SUBPROTOCOLS = (Subprotocol(BINARY), Subprotocol(JSON_ENVELOPES))


class Rejection(Exception):
    """REJECT, and the close code that follows it (§2)."""

    def __init__(self, code: str, message: str, close_code: int) -> None:
        super().__init__(message)
        self.code = code
        self.close_code = close_code


class Protocol(Fragments, WebSocketServerProtocol):
    """The decisions in HTTP (§1)."""

    async def process_request(self, path: str, request_headers: Any) -> Any:
        # WS-6
        if request_headers.get("Transfer-Encoding") or request_headers.get("Content-Length", "0") != "0":
            return http.HTTPStatus.BAD_REQUEST, [("Content-Type", "text/plain")], b"an upgrade has no body\n"
        offered = [name.strip() for line in request_headers.get_all("Sec-WebSocket-Protocol") for name in line.split(",")]
        if any(name in SUBPROTOCOLS for name in offered):
            return None
        # WS-3
        body = f"offer one of the subprotocols {', '.join(SUBPROTOCOLS)}\n".encode()
        return http.HTTPStatus.BAD_REQUEST, [("Content-Type", "text/plain")], body

    def select_subprotocol(self, client_subprotocols: Sequence[Any], server_subprotocols: Sequence[Any]) -> Any:
        """WS-2: the client's order counts."""
        return next((name for name in client_subprotocols if name in server_subprotocols), None)


class Server:
    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    async def serve(self, socket: Any) -> None:
        """One connection, from HELLO to its end."""
        transport = Transport(socket)
        session: Session | None = None
        try:
            check_address(transport)
            session = await self._greet(transport)
            while session is not None:
                message = await transport.receive()
                if message is None:
                    break
                session.handle(message)
        except ProtocolError as error:
            if session is None:
                transport.finish(error.close_code, error.close_reason)
            else:
                session.fail(error)
        except Rejection as rejection:
            payload = {"code": rejection.code, "message": str(rejection), "retryable": False}
            transport.send(control.encode("REJECT", None, payload, transport.subprotocol))
            transport.finish(rejection.close_code, str(rejection))
        code = await transport.ended()
        if session is not None:
            session.handle_lost(transport, code)

    async def _greet(self, transport: Transport) -> Session | None:
        """HELLO and its answer."""
        try:
            message = await asyncio.wait_for(transport.receive(), HELLO_SECONDS)
        except asyncio.TimeoutError:
            transport.finish(CLOSE_TIMEOUT, "no HELLO came")
            return None
        if message is None:
            return None
        if isinstance(message, str) is (transport.subprotocol == BINARY):
            raise ProtocolError("bad_frame", "a message of the other subprotocol")
        if isinstance(message, bytes) and (not message or not control.is_map(message[0])):
            raise ProtocolError("bad_frame", "not a control message")
        fields = control.decode(message, control.MAX_BEFORE_ACCEPT)
        if fields["type"] != "HELLO":
            raise ProtocolError("protocol_violation", f"{fields['type']} before HELLO")
        hello = fields.get("payload") or {}
        check_hello(hello)
        if str(hello.get("version", "")).split(".")[0] not in VERSIONS:
            raise Rejection("VERSION_MISMATCH", "this version is not spoken here", CLOSE_BAD_FRAME)
        if not common_algorithms(hello):
            raise Rejection("NO_COMMON_ALGORITHM", "no algorithm in common", CLOSE_BAD_FRAME)
        return self._resumed(transport, hello) or self._begun(transport, hello)

    def _begun(self, transport: Transport, hello: Fields) -> Session:
        """A new session."""
        accepted = accept(hello)
        if transport.subprotocol != BINARY:
            accepted["extensions"] = {}
        session_id = f"sess_{secrets.token_hex(12)}"
        agreement = agreement_of(session_id, accepted, hello.get("extensions") or {})
        session = Session(agreement, False, transport, hello)
        self._sessions[session_id] = session
        session.on_over = lambda over: void(self._sessions.pop(over.agreement.session_id, None))
        reason = {} if hello.get("resume") is None else {"reason": self._why_not(hello)}
        self._send_accept(transport, session, accepted, recovered=False, **reason)
        return session

    def _resumed(self, transport: Transport, hello: Fields) -> Session | None:
        """§6, the sequence, server. Nothing waits in here (RES-6)."""
        resume = hello.get("resume")
        session = self._matching(resume)
        if session is None or resume is None:
            return None
        if (resume.get("attempt") or 0) <= session.attempt:
            transport.finish(CLOSE_STALE_ATTEMPT, "a newer attempt was accepted")
            raise ProtocolError("stale_attempt", "a newer attempt was accepted")
        if not same_offer(hello, session.hello):
            return None
        session.attempt = resume["attempt"]
        session.take_over(CLOSE_TAKEN_OVER, "a newer connection carries the session")
        session.previous_token = resume["token"]
        accepted = accept(hello)
        self._send_accept(transport, session, accepted, recovered=True)
        try:
            session.attach(transport, resume.get("received") or 0)
        except ProtocolError:
            # RES-8
            session.finish()
            raise
        return session

    def _matching(self, resume: Fields | None) -> Session | None:
        """RES-5: tokens are compared in constant time."""
        session = None if resume is None else self._sessions.get(resume["session_id"])
        if session is None or resume is None:
            return None
        valid = [session.token] if session.previous_token is None else [session.token, session.previous_token]
        matches = [hmac.compare_digest(token.encode(), resume["token"].encode()) for token in valid]
        return session if any(matches) else None

    def _why_not(self, hello: Fields) -> str:
        return "unknown_session" if self._matching(hello.get("resume")) is None else "other_offer"

    def _send_accept(self, transport: Transport, session: Session, accepted: Fields, **resume: Any) -> None:
        agreement: Agreement = session.agreement
        if agreement.resumes and session.link is not None:
            session.token = new_token()
            ticket = {"token": session.token, "window_ms": int(WINDOW_SECONDS * 1000), "received": session.link.received}
            accepted = {**accepted, "resume": {**ticket, **resume}}
        transport.send(control.encode("ACCEPT", agreement.session_id, accepted, transport.subprotocol))


def check_address(transport: Transport) -> None:
    """WS-10, WS-11, on loopback. The scheme of a proxy in front of it is not known, so any scheme is the server's own."""
    host, origin = transport.header("Host") or "", transport.header("Origin")
    if not is_loopback(host):
        raise Rejection("SECURITY_POLICY", "this host is not served here", CLOSE_FORBIDDEN)
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        raise Rejection("SECURITY_POLICY", "this origin is not admitted", CLOSE_FORBIDDEN)


def is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name in ("localhost", "127.0.0.1", "::1") or name.endswith(".localhost")


def void(_: object) -> None:
    """For callbacks that return nothing."""


async def listen(port: int, on_listening: Any = print) -> None:
    server = await serve(
        Server().serve,
        "127.0.0.1",
        port,
        create_protocol=Protocol,  # type: ignore[arg-type]
        subprotocols=SUBPROTOCOLS,
        compression=None,
        max_size=MAX_FRAME,
        ping_interval=None,
    )
    taken = next(iter(server.sockets)).getsockname()[1]
    on_listening(f"ws://127.0.0.1:{taken}/session")
    await asyncio.Future()
