"""Peers that do something else than this one, and that the specification allows: the kit must not fail them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from parlance_peer import behaviours, control, link, outbox, server, session
from parlance_peer.client import Client
from parlance_peer.control import Fields
from parlance_peer.errors import RequestError
from parlance_peer.frames import Kind, signal, varint

Change = Callable[[Fields], Fields]


def _in_control(kind: str, change: Change) -> None:
    """Changes the payload of the control messages of one type."""
    encode = control.encode

    def changing(type_: str, session_id: str | None, payload: Fields, *rest: Any) -> bytes | str:
        return encode(type_, session_id, change(payload) if type_ == kind else payload, *rest)

    control.encode = changing


def _without(fields: Fields, defaults: Fields) -> Fields:
    return {name: value for name, value in fields.items() if name not in defaults or value != defaults[name]}


ACCEPT: Fields = {
    "encoding": None,
    "security_scanning": False,
    "session_timeout_ms": 0,
    "max_payload_size": 0,
    "limits": {},
    "extensions": {},
}
TICKET: Fields = {"recovered": False, "received": 0}
HELLO: Fields = {
    "encodings": [],
    "preferred_encoding": None,
    "security_scanning": False,
    "max_payload_size": 0,
    "supports_streaming": False,
}


def leaves_out_defaults_of_accept() -> None:
    """ACCEPT, and `resume` in it, have nothing that is the default."""

    def shorter(payload: Fields) -> Fields:
        short = _without(payload, ACCEPT)
        return {**short, "resume": _without(short["resume"], TICKET)} if "resume" in short else short

    _in_control("ACCEPT", shorter)


def leaves_out_defaults_of_hello() -> None:
    """HELLO has no `encodings`, and nothing else that need not be there."""

    def shorter(payload: Fields) -> Fields:
        short = _without({**payload, "supports_streaming": False}, HELLO)
        return {**short, "resume": _without(short["resume"], TICKET)} if "resume" in short else short

    _in_control("HELLO", shorter)


def states_null() -> None:
    """Null counts as absent in every field."""
    _in_control("ACCEPT", lambda payload: {**dict.fromkeys(ACCEPT), "agent_id": None, **_without(payload, ACCEPT)})
    _in_control("HELLO", lambda payload: {**dict.fromkeys(HELLO), "agent_id": None, **_without(payload, HELLO)})


def gives_no_reasons() -> None:
    """REJECT has no message, and an ACCEPT that does not resume has no reason."""
    _in_control("REJECT", lambda payload: {"code": payload["code"]})

    def silent(payload: Fields) -> Fields:
        return {**payload, "resume": _without(payload["resume"], {"reason": payload["resume"].get("reason")})}

    _in_control("ACCEPT", lambda payload: silent(payload) if "resume" in payload else payload)


def errors_without_messages() -> None:
    """An error frame has a code, and a text only if the test asks for one."""
    fields = RequestError.fields.fget
    fail = behaviours.Behaviours._fail
    told: set[str] = set()

    async def failing(self: Any, stream: int, wish: Fields, message: Any) -> None:
        told.add(wish["message"])
        await fail(self, stream, wish, message)

    behaviours.Behaviours._fail = failing
    RequestError.fields = property(  # type: ignore[assignment]
        lambda error: fields(error) if str(error) in told else _without(fields(error), {"message": str(error)})
    )


def small_frames() -> None:
    """Bodies come in frames of at most 4,096 bytes."""
    outbox.MAX_PIECE = outbox.MAX_TENSOR_PIECE = 4_096


def bare_envelopes() -> None:
    """Control messages have no payload if it is empty, and no session."""
    pack = control.pack

    def barer(fields: Fields) -> bytes:
        if fields.get("type") not in ("PING", "PONG", "CLOSE"):
            return pack(fields)
        bare = {name: fields[name] for name in ("type", "timestamp")}
        return pack({**bare, "payload": fields["payload"]} if fields["payload"] else bare)

    control.pack = barer


def leaves_streams_out() -> None:
    """Not every stream ID is used."""
    opening = link.Link.open

    def skipping(self: link.Link, *arguments: Any) -> link.Call:
        self._next_stream += 6
        return opening(self, *arguments)

    link.Link.open = skipping


def cancels_by_error() -> None:
    """CANCEL of a request that has arrived is answered by ERROR."""
    cancelled, reply = link.Link._cancelled, link.Link.reply
    # Not by `id()`, which a link may have after another one that is gone.
    seen: WeakKeyDictionary[link.Link, set[int]] = WeakKeyDictionary()

    def noting(self: link.Link, frame: Any) -> None:
        if self._requests.get(frame.stream) is not None:
            seen.setdefault(self, set()).add(frame.stream)
        cancelled(self, frame)

    def replying(self: link.Link, stream: int, body: outbox.Body) -> None:
        is_end = body.kind == Kind.END and stream in seen.get(self, ())
        reply(self, stream, link.error_body(RequestError("cancelled", "cancelled", False)) if is_end else body)

    link.Link._cancelled = noting
    link.Link.reply = replying


def _speak(over: session.Session, say: Callable[[session.Session], None]) -> None:
    if over.link is not None:
        say(over)


def _after_accept(say: Callable[[session.Session], None]) -> None:
    """Says something as soon as a session is established."""
    send_accept, begin = server.Server._send_accept, Client._begin

    def accepting(self: Any, transport: Any, over: session.Session, accepted: Fields, **resume: Any) -> None:
        send_accept(self, transport, over, accepted, **resume)
        if not resume.get("recovered"):
            _speak(over, say)

    def beginning(self: Any, transport: Any, fields: Fields) -> session.Session:
        before = self._session
        over = begin(self, transport, fields)
        if over is not before:
            _speak(over, say)
        return over

    server.Server._send_accept = accepting
    Client._begin = beginning


def credit_at_once() -> None:
    """Credit of stream 0 comes right behind ACCEPT."""

    def grant(over: session.Session) -> None:
        limit = over.link._incoming_credit.window(0) + 1_000
        over.link._incoming_credit.raise_to(0, limit)
        over._transmit(signal(Kind.CREDIT, 0, varint(limit)))

    _after_accept(grant)


def speaks_at_once() -> None:
    """PING, and a message of an unknown type, come right behind ACCEPT."""

    def say(over: session.Session) -> None:
        over._say("PING", {})
        over._say("NOVELTY", {"any": [1]})

    _after_accept(say)


def other_spelling() -> None:
    """Names of algorithms are spelled otherwise, unknown ones are there, and one is there twice."""

    def spelled(payload: Fields) -> Fields:
        return {**payload, "algorithms": [name.lower().replace("_", "-") for name in payload["algorithms"]]}

    _in_control("ACCEPT", spelled)
    _in_control("HELLO", lambda payload: spelled({**payload, "algorithms": [*payload["algorithms"], "NOVELTY", "none"]}))


def version_three() -> None:
    """The client states version 3 in the flat shape, and a largest payload."""
    _in_control("HELLO", lambda payload: {**payload, "version": "3.0", "max_payload_size": 1_000_000})


def acknowledges_each_frame() -> None:
    """There is an acknowledgement for each frame."""
    link.ACK_FRAMES = 1


def _unknown_as(code: str, message: str) -> Callable[[], None]:
    def answering() -> None:
        answer = link.error_body

        def other(error: RequestError) -> outbox.Body:
            return answer(RequestError(code, message, error.retryable) if error.code == "unknown_test" else error)

        behaviours.error_body = other

    return answering


def _knows_less() -> None:
    """`throw` is unknown to the peer as it is; so is `tensor` here."""
    begin = behaviours.Behaviours.__init__

    def beginning(self: Any, over: session.Session) -> None:
        begin(self, over)
        for name in ("tensor", "close", "fail"):
            del self._known[name]

    behaviours.Behaviours.__init__ = beginning  # type: ignore[method-assign]


def unknown_is_unsupported() -> None:
    """A test that the peer does not know is answered with `unsupported`."""
    _knows_less()
    _unknown_as("unsupported", "there is no such test")()


def unknown_is_internal() -> None:
    """A test that the peer does not know is one at which its handler fails."""
    _knows_less()
    _unknown_as("internal", "the handler failed")()


VARIANTS: dict[str, Callable[[], None]] = {
    name: variant
    for name, variant in list(globals().items())
    if callable(variant) and getattr(variant, "__module__", "") == __name__ and not name.startswith("_")
}
"""By name. Several can be there at once."""
