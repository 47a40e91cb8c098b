"""Offers and agreements (§2, HELLO and ACCEPT; §4, link; §9, context)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .control import Fields, expect
from .errors import ProtocolError

ALGORITHMS = ["BROTLI", "DICTIONARY", "M2M", "NONE"]
KNOWN = {"M2M", "TOKEN_NATIVE", "TOKEN", "BROTLI", "DICTIONARY", "NONE"}
LINK = {"max_streams": 64, "message_window": 131_072, "stream_window": 131_072, "max_transfer": 16_777_216}
STANDARD: dict[str, Fields] = {
    "link": {
        "max_streams": 128,
        "message_window": 1_048_576,
        "stream_window": 16_384,
        "max_transfer": 1_073_741_824,
    },
    "context": {"max_bytes": 4_194_304, "max_messages": 8},
}
CONTEXT = {"max_bytes": 262_144, "max_messages": 8}
EXTENSIONS = {"link": json.dumps(LINK), "resume": "{}", "context": json.dumps(CONTEXT)}
UNLIMITED = 2**53


@dataclass(frozen=True)
class Link:
    """The limits that an end sets its peer."""

    max_streams: int
    message_window: int
    stream_window: int
    max_transfer: int = UNLIMITED
    messages: bool = True
    """Whether it reads one-way messages and tensors."""


@dataclass(frozen=True)
class Limits:
    """The limits of the bodies and rates of this end in ACCEPT (§13, announced limits)."""

    max_message: int = UNLIMITED
    max_transfer: int = UNLIMITED
    max_metadata: int = UNLIMITED
    max_streams: int = UNLIMITED
    messages_per_minute: int = UNLIMITED
    bytes_per_second: int = UNLIMITED


@dataclass(frozen=True)
class Agreement:
    session_id: str
    algorithms: tuple[str, ...]
    own: Link | None
    peer: Link | None
    resumes: bool
    context: tuple[int, int] | None
    """The most bytes and messages that are kept of a direction."""
    limits: Limits = Limits()


def hello() -> Fields:
    return {
        "version": "1.0",
        "algorithms": ALGORITHMS,
        "encodings": [],
        "preferred_encoding": None,
        "security_scanning": False,
        "max_payload_size": 0,
        "supports_streaming": True,
        "extensions": EXTENSIONS,
    }


def plain_name(name: str) -> str:
    """Names are compared without case and separators (CTL-4)."""
    return name.upper().replace("_", "").replace("-", "")


def _known(names: Any) -> list[str]:
    by_plain = {plain_name(name): name for name in KNOWN}
    found = [by_plain[plain_name(name)] for name in names if isinstance(name, str) and plain_name(name) in by_plain]
    return list(dict.fromkeys(found))


def check_hello(payload: Fields) -> None:
    """HELLO-4: what is malformed ends the handshake."""
    expect(payload, "version", str)
    for name in ("algorithms", "encodings"):
        if len(expect(payload, name, list) or []) > 64:
            raise ProtocolError("bad_message", f"{name} is too long")
    for name, value in (expect(payload, "extensions", dict) or {}).items():
        if not isinstance(value, str) or len(value) > 16_384:
            raise ProtocolError("bad_message", f"the extension {name} is not a text")
    extensions = payload.get("extensions") or {}
    link_of(extensions)
    _context_of(extensions)
    resume = expect(payload, "resume", dict)
    if resume is not None:
        for name in ("session_id", "token"):
            expect(resume, name, str, required=True)
        for name in ("received", "attempt"):
            expect(resume, name, int)


def common_algorithms(payload: Fields) -> list[str]:
    """ACC-1: those of both ends, in the order of the client."""
    return [name for name in _known(payload.get("algorithms") or []) if name in ALGORITHMS]


def accept(payload: Fields) -> Fields:
    """The answer to an offer, without `resume`."""
    offered = payload.get("extensions") or {}
    common = {name: value for name, value in EXTENSIONS.items() if name in offered}
    if "link" not in common:
        common = {}
    return {
        "version": "3.0" if str(payload.get("version")).startswith("3") else "1.0",
        "algorithms": common_algorithms(payload),
        "encoding": None,
        "security_scanning": False,
        "session_timeout_ms": 0,
        "max_payload_size": expect(payload, "max_payload_size", int) or 0,
        "limits": {},
        "extensions": common,
    }


def check_accept(payload: Fields) -> None:
    """ACC-5: an ACCEPT that goes beyond the offer fails."""
    algorithms = expect(payload, "algorithms", list, required=True)
    extensions = expect(payload, "extensions", dict) or {}
    beyond = [name for name in _known(algorithms) if name not in ALGORITHMS]
    if beyond or not _known(algorithms) or payload.get("encoding") is not None:
        raise ProtocolError("bad_acceptance", "an algorithm or encoding that was not offered")
    if any(name not in EXTENSIONS for name in extensions):
        raise ProtocolError("bad_acceptance", "an extension that was not offered")
    if "resume" in extensions:
        ticket = expect(payload, "resume", dict, required=True)
        expect(ticket, "token", str, required=True)
        expect(ticket, "received", int)


def agreement_of(session_id: str, accepted: Fields, peer: Fields) -> Agreement:
    """The agreement in `accepted`. `peer` is the extensions of the other end."""
    agreed = accepted.get("extensions") or {}
    has_link = "link" in agreed
    return Agreement(
        session_id,
        tuple(_known(accepted["algorithms"])),
        Link(**LINK) if has_link else None,
        link_of(peer) if has_link else None,
        "resume" in agreed,
        _smaller(_context_of(peer)) if "context" in agreed else None,
        limits_of(accepted),
    )


def limits_of(accepted: Fields) -> Limits:
    """ACC-6: an absent limit is unlimited, and so is a rate of 0. `max_payload_size` binds a server, too."""
    stated = expect(accepted, "limits", dict) or {}

    def number(name: str) -> int:
        value = expect(stated, name, (int, float))
        return UNLIMITED if value is None else int(value)

    return Limits(
        min(number("maxMessageSize"), expect(accepted, "max_payload_size", int) or UNLIMITED),
        number("maxTransferSize"),
        number("maxMetadataSize"),
        number("maxStreams"),
        number("messagesPerMinute") or UNLIMITED,
        number("bytesPerSecond") or UNLIMITED,
    )


def _smaller(theirs: tuple[int, int] | None) -> tuple[int, int] | None:
    if theirs is None:
        return None
    return min(theirs[0], CONTEXT["max_bytes"]), min(theirs[1], CONTEXT["max_messages"])


def link_of(extensions: Fields) -> Link | None:
    """Windows are whole numbers of at least 1; what is absent is unlimited."""
    if "link" not in extensions:
        return None
    stated = _parameters("link", extensions["link"])

    def number(name: str) -> int:
        value = stated.get(name)
        if value is None:
            return UNLIMITED
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ProtocolError("bad_message", f"{name} of link is not a whole number of at least 1")
        return value

    messages = expect(stated, "messages", bool)
    return Link(
        number("max_streams"), number("message_window"), number("stream_window"), number("max_transfer"), messages is not False
    )


def _context_of(extensions: Fields) -> tuple[int, int] | None:
    if "context" not in extensions:
        return None
    stated = _parameters("context", extensions["context"])
    values = stated.get("max_bytes"), stated.get("max_messages")
    if not all(isinstance(value, int) and value >= 0 for value in values):
        raise ProtocolError("bad_message", "the extension context is not complete")
    return values  # type: ignore[return-value]


def _parameters(name: str, text: Any) -> Fields:
    """STD-1: what is absent, or null, has its standard value."""
    named = {member: value for member, value in _json(text).items() if value is not None}
    return {**STANDARD[name], **named} if named.get("std") == 1 else named


def _json(text: Any) -> Fields:
    try:
        value = json.loads(text)
    except (TypeError, ValueError) as error:
        raise ProtocolError("bad_message", "an extension is not JSON") from error
    if not isinstance(value, dict):
        raise ProtocolError("bad_message", "an extension is not a JSON object")
    return value


def same_offer(one: Fields, other: Fields) -> bool:
    """RES-2: offers are compared by what they mean, without `auth` and `resume`."""

    def meaning(payload: Fields) -> Fields:
        rest = {name: value for name, value in payload.items() if name not in ("auth", "resume")}
        stated = rest.get("extensions") or {}
        rest["extensions"] = {name: _json_or_text(value) for name, value in stated.items()}
        return rest

    return meaning(one) == meaning(other)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
