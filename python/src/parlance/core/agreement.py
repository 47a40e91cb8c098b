"""The offer of a client in HELLO, and its agreement with the server (part 2)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .control import Control
from .errors import ParlanceError
from .limits import Limits
from .maps import Fields, Map, whole_of

VERSION: Final = "1.0"
UNLIMITED: Final = 2**53
#: An extension, and the one without which it is not agreed on.
_NEEDS: Final = {
    "resume": "link",
    "rebuild": "resume",
    "move": "resume",
    "durable": "resume",
    "context": "link",
    "agents": "link",
    "avp": "link",
    "replies": "link",
}


def normalized(name: str) -> str:
    """Return a name of an algorithm or encoding as names are compared (CTL-4)."""
    return name.upper().replace("_", "").replace("-", "") if len(name) <= 64 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The capabilities of a client; they never change in the life of a session (RES-2)."""

    algorithms: Sequence[str]
    limits: Limits = field(default_factory=Limits)
    encodings: Sequence[str] = ()
    #: SHA-256 of rank files that are not those of the document.
    vocabularies: Mapping[str, str] = field(default_factory=dict)
    agent_id: str | None = None
    #: Name to parameters, beside those that follow from `limits`.
    extensions: Mapping[str, Any] = field(default_factory=dict)

    def hello(self) -> dict[str, Any]:
        """Return the payload of HELLO, without what differs from one connection to the next."""
        limits = self.limits
        parameters: dict[str, Any] = {
            "link": {
                "max_streams": limits.max_streams,
                "message_window": limits.message_window,
                "stream_window": limits.stream_window,
                "max_transfer": limits.max_tensor_size,
            }
        }
        parameters |= self.extensions
        if self.vocabularies:
            parameters["vocabularies"] = dict(self.vocabularies)
        hello: dict[str, Any] = {
            "version": VERSION,
            "algorithms": list(self.algorithms),
            "encodings": list(self.encodings),
            "max_payload_size": limits.max_message_size,
            "extensions": {name: _compact(value) for name, value in parameters.items()},
        }
        if self.encodings:
            hello["preferred_encoding"] = self.encodings[0]
        if self.agent_id:
            hello["agent_id"] = self.agent_id
        return hello


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class LinkParameters:
    """The limits that an end sets its peer on the link."""

    max_streams: int = UNLIMITED
    message_window: int = UNLIMITED
    stream_window: int = UNLIMITED
    max_transfer: int = UNLIMITED
    messages: bool = True


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of both ends, and the limits of the server."""

    session_id: str
    algorithms: tuple[str, ...]
    encoding: str | None
    agent_id: str | None
    extensions: Mapping[str, str]
    link: LinkParameters
    #: Bytes of the largest body that the server takes, and of the largest that it may send.
    max_message_size: int
    max_received_size: int
    max_metadata_size: int
    max_transfer_size: int
    max_streams: int
    messages_per_minute: float
    bytes_per_second: float
    #: Bytes and number of messages that are kept for the extension `context`.
    context: tuple[int, int] | None
    session_timeout: float

    def has(self, extension: str) -> bool:
        """Whether the two ends have agreed on this extension."""
        return extension in self.extensions


def read_agreement(offer: Offer, accept: Control) -> Agreement:
    """Read ACCEPT and check that it keeps within the offer (ACC-5).

    Raises
    ------
    ParlanceError
        `bad_acceptance`, `bad_message`, `unsupported` without the extension `link`.
    """
    fields = accept.fields
    if not accept.session_id:
        raise ParlanceError("bad_message", "ACCEPT without a session ID")
    version = fields.text("version", 32)
    if version is None:
        raise ParlanceError("bad_message", "ACCEPT without a version")
    if version.split(".")[0] != "1":
        raise ParlanceError("bad_acceptance", f"version {version}")
    algorithms = _algorithms(offer, fields.texts("algorithms"))
    encoding = _encoding(offer, fields.text("encoding", 64))
    if "TOKEN_NATIVE" in algorithms and encoding is None:
        raise ParlanceError("bad_acceptance", "TOKEN_NATIVE without an encoding")
    fields.flag("security_scanning")
    offered = offer.hello()["extensions"]
    extensions = _extensions(offered, fields.map("extensions") or {})
    _check_vocabulary(offer, encoding, extensions)
    if "link" not in extensions:
        raise ParlanceError("unsupported", "the server speaks without the extension link, which this client needs")
    size = fields.whole("max_payload_size")
    if size > offer.limits.max_message_size:
        raise ParlanceError("bad_acceptance", "max_payload_size above the offer")
    limit = _limits(fields.map("limits") or {})
    link = read_link(extensions["link"])
    rate = {name: limit(name) or math.inf for name in ("messagesPerMinute", "bytesPerSecond")}
    return Agreement(
        session_id=accept.session_id,
        algorithms=algorithms,
        encoding=encoding,
        agent_id=fields.text("agent_id", 128),
        extensions=extensions,
        link=link,
        max_message_size=min(size or UNLIMITED, _or_unlimited(limit("maxMessageSize"))),
        max_received_size=min(size or UNLIMITED, offer.limits.max_message_size),
        max_metadata_size=min(8_192, _or_unlimited(limit("maxMetadataSize"))),
        max_transfer_size=min(link.max_transfer, _or_unlimited(limit("maxTransferSize"))),
        max_streams=min(link.max_streams, _or_unlimited(limit("maxStreams"))),
        messages_per_minute=rate["messagesPerMinute"],
        bytes_per_second=rate["bytesPerSecond"],
        context=_context(offer, extensions.get("context")),
        session_timeout=fields.whole("session_timeout_ms") / 1_000,
    )


def _algorithms(offer: Offer, names: list[str] | None) -> tuple[str, ...]:
    offered = {normalized(name): name for name in offer.algorithms}
    if names is None:
        raise ParlanceError("bad_message", "ACCEPT without algorithms")
    agreed = [offered.get(normalized(name)) for name in names]
    if not agreed or None in agreed:
        raise ParlanceError("bad_acceptance", "an algorithm that was not offered, or none")
    return tuple(dict.fromkeys(name for name in agreed if name is not None))


def _encoding(offer: Offer, name: str | None) -> str | None:
    if not name:
        return None
    for encoding in offer.encodings:
        if normalized(encoding) == normalized(name):
            return encoding
    raise ParlanceError("bad_acceptance", "an encoding that was not offered")


def _extensions(offered: Mapping[str, str], agreed: Map) -> dict[str, str]:
    for name, value in agreed.items():
        if value is None:
            continue
        if type(value) is not str:
            raise ParlanceError("bad_message", "ACCEPT.extensions: expected texts")
        if name not in offered:
            raise ParlanceError("bad_acceptance", "an extension that was not offered")
        if (needs := _NEEDS.get(name)) is not None and agreed.get(needs) is None:
            raise ParlanceError("bad_acceptance", f"{name} without {needs}")
    return {name: value for name, value in agreed.items() if value is not None}


def _check_vocabulary(offer: Offer, encoding: str | None, extensions: Mapping[str, str]) -> None:
    own = offer.vocabularies.get(encoding or "")
    try:
        stated = json.loads(extensions.get("vocabularies", "{}"))
    except ValueError:
        return
    other = stated.get(encoding) if isinstance(stated, dict) else None
    if own is not None and isinstance(other, str) and other != own:
        raise ParlanceError("bad_acceptance", "another vocabulary than the one that was offered")


def _limits(limits: Map) -> Any:
    for value in limits.values():
        if value is not None and type(value) not in (int, float):
            raise ParlanceError("bad_message", "ACCEPT.limits: expected numbers")
    return limits.get


def _or_unlimited(value: Any) -> int:
    return UNLIMITED if value is None else min(UNLIMITED, int(value))


def _object(text: str, of: str) -> Map:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if type(value) is not dict:
        raise ParlanceError("bad_message", f"{of}: expected a JSON object")
    return value


def read_link(text: str) -> LinkParameters:
    """Read the parameters of the extension `link`.

    Raises
    ------
    ParlanceError
        `bad_message`.
    """
    value = _object(text, "link")
    fields = Fields(value, "link")
    numbers = [
        fields.whole(name, UNLIMITED) for name in ("max_streams", "message_window", "stream_window", "max_transfer")
    ]
    if min(numbers) < 1:
        raise ParlanceError("bad_message", "link: expected numbers from 1")
    streams, messages, stream, transfer = numbers
    return LinkParameters(streams, messages, stream, transfer, fields.flag("messages", True))


def _context(offer: Offer, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    value = _object(text, "context")
    size, number = whole_of(value.get("max_bytes")), whole_of(value.get("max_messages"))
    if size is None or number is None:
        raise ParlanceError("bad_message", "context: expected max_bytes and max_messages")
    limits = offer.limits
    return min(size, 67_108_864, limits.context_bytes), min(number, 64, limits.context_messages)
