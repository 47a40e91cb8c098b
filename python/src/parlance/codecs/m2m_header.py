"""The header of an M2M frame: what a router reads (annex A)."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Final

from ..core.errors import ParlanceError
from ..core.wire import read_varint, text_of, varint

FIXED: Final = 20
COMPRESSED: Final = 1 << 24
_MAX_U32: Final = 2**32 - 1
_REQUESTS: Final = frozenset({0x01, 0x04, 0x11})
_RESPONSES: Final = frozenset({0x02, 0x05, 0x10, 0x12})
_OTHERS: Final = frozenset({0x03, 0xFE})
_REQUEST_FLAGS: Final = 0x7FFF
_RESPONSE_FLAGS: Final = 0xFF
_HAS_MAX_TOKENS: Final = 1 << 6
_HAS_CACHED: Final = 1 << 5
_HAS_REASONING: Final = 1 << 6
_HAS_COST: Final = 1 << 7
_ROLES: Final = {"system": 0, "developer": 0, "user": 1, "assistant": 2, "tool": 3}
_FINISH: Final = {"stop": 0, "length": 1, "tool_calls": 2, "content_filter": 3}
#: Members of a request whose presence sets a flag.
_PRESENCE: Final = {
    "tools": 1,
    "functions": 1,
    "tool_choice": 2,
    "function_call": 2,
    "response_format": 5,
    "reasoning_effort": 7,
    "service_tier": 8,
    "seed": 9,
    "logprobs": 10,
    "user": 11,
    "temperature": 12,
    "top_p": 13,
    "stop": 14,
}


@dataclass(slots=True)
class Header:
    """The header of a frame.

    Attributes
    ----------
    schema, flags : int
    model, id : str or None
    roles : tuple of int
        Two bits for each message: 0 system, 1 user, 2 assistant, 3 tool.
    numbers : dict
        Counts, by the names of the annex.
    cost : float or None
        US dollars, an estimate of the sender's.
    """

    schema: int
    flags: int
    model: str | None = None
    id: str | None = None
    roles: tuple[int, ...] = ()
    numbers: dict[str, int] | None = None
    cost: float | None = None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = FIXED

    def take(self, size: int) -> bytes:
        piece = self.data[self.at : self.at + size]
        self.at += size
        if len(piece) < size:
            raise ParlanceError("truncated", "the routing header is cut off")
        return piece

    def string(self) -> str:
        return text_of(self.take(self.take(1)[0]))

    def number(self) -> int:
        number, self.at = read_varint(self.data, self.at, _MAX_U32)
        return number

    def cost(self) -> float:
        (cost,) = struct.unpack("<f", self.take(4))
        if not (math.isfinite(cost) and math.copysign(1, cost) > 0):
            raise ParlanceError("bad_header", "a cost that is negative or not finite")
        return float(cost)


def read_header(data: bytes) -> Header:
    """Read a whole header (M2M-1, M2M-3).

    Raises
    ------
    ParlanceError
        `bad_header`, `unknown_schema`, `truncated`, `bad_varint`, `bad_utf8`.
    """
    schema, flags = data[2], int.from_bytes(data[4:8], "little")
    if schema not in _REQUESTS | _RESPONSES | _OTHERS:
        raise ParlanceError("unknown_schema", f"schema {schema:#x}")
    known = _REQUEST_FLAGS if schema in _REQUESTS else _RESPONSE_FLAGS if schema in _RESPONSES else 0
    if any(data[8:FIXED]) or flags & ~(known | COMPRESSED):
        raise ParlanceError("bad_header", "reserved bytes or flags that are not 0")
    header = Header(schema, flags)
    reader = _Reader(data)
    if schema in _REQUESTS:
        _read_request(header, reader)
    elif schema in _RESPONSES:
        _read_response(header, reader)
    if reader.at != len(data):
        raise ParlanceError("bad_header", "bytes after the routing header")
    return header


def _read_request(header: Header, reader: _Reader) -> None:
    header.model = reader.string()
    count = reader.number()
    packed = reader.take((count + 3) // 4)
    bits = int.from_bytes(packed, "little")
    if bits >> (2 * count):
        raise ParlanceError("bad_header", "bits after the last role")
    header.roles = tuple(packed[index // 4] >> (2 * (index % 4)) & 3 for index in range(count))
    header.numbers = {"hint": reader.number()}
    if header.flags & _HAS_MAX_TOKENS:
        header.numbers["max_tokens"] = reader.number()
    if reader.at < len(reader.data):
        header.cost = reader.cost()


def _read_response(header: Header, reader: _Reader) -> None:
    header.id, header.model = reader.string(), reader.string()
    numbers = header.numbers = {"finish": reader.take(1)[0]}
    numbers["prompt"], numbers["completion"] = reader.number(), reader.number()
    if header.flags & _HAS_CACHED:
        numbers["cached"] = reader.number()
    if header.flags & _HAS_REASONING:
        numbers["reasoning"] = reader.number()
    if header.flags & _HAS_COST:
        header.cost = reader.cost()


def routing_of(message: Any) -> tuple[int, int, bytes]:
    """Return schema, flags and routing header of a JSON message (M2M-4); the cost, which is optional, is left out.

    Raises
    ------
    ParlanceError
        `unrepresentable`.
    """
    value = message if isinstance(message, dict) else {}
    is_request = "messages" in value and "model" in value
    if not is_request and ("choices" in value or _text(value.get("id")).startswith("chatcmpl-")):
        return _response(value)
    return _request(value)


def _request(value: dict[str, Any]) -> tuple[int, int, bytes]:
    flags = 0
    for name, bit in _PRESENCE.items():
        flags |= (name in value) << bit
    flags |= (value.get("stream") is True) << 4
    roles, hint = [], 0
    for item in _list(value.get("messages")):
        entry = item if isinstance(item, dict) else {}
        role = _ROLES.get(entry["role"]) if isinstance(entry.get("role"), str) else None
        if role is None:
            raise ParlanceError("unrepresentable", "a role that an M2M header cannot carry")
        roles.append(role)
        hint += len(_text(entry.get("content")).encode())
        for part in _list(entry.get("content")):
            if isinstance(part, dict):
                flags |= (part.get("type") == "image_url") << 3
                hint += len(_text(part.get("text")).encode())
    flags |= 0 in roles
    packed = bytearray((len(roles) + 3) // 4)
    for index, role in enumerate(roles):
        packed[index // 4] |= role << (2 * (index % 4))
    routing = _string(_text(value.get("model"))) + varint(len(roles)) + packed + varint(hint)
    most = _count(value.get("max_tokens"))
    most = _count(value.get("max_completion_tokens")) if most is None else most
    if most is not None:
        flags |= _HAS_MAX_TOKENS
        routing += varint(most)
    return 0x01, flags, bytes(routing)


def _response(value: dict[str, Any]) -> tuple[int, int, bytes]:
    choice = _map((_list(value.get("choices")) or [None])[0])
    message, usage = _map(choice.get("message")), _map(value.get("usage"))
    reason = choice.get("finish_reason")
    finish = _FINISH.get(reason, 0xFF) if isinstance(reason, str) else 0xFF
    flags = ("tool_calls" in message) | isinstance(message.get("refusal"), str) << 1
    flags |= (finish == 3) << 2 | ("usage" in value) << 3 | (finish == 1) << 4
    routing = _string(_text(value.get("id"))) + _string(_text(value.get("model"))) + bytes([finish])
    routing += varint(_usage(usage, "prompt_tokens")) + varint(_usage(usage, "completion_tokens"))
    details = ("prompt_tokens_details", "cached_tokens", 5), ("completion_tokens_details", "reasoning_tokens", 6)
    for group, name, bit in details:
        number = _usage(_map(usage.get(group)), name)
        if number:
            flags |= 1 << bit
            routing += varint(number)
    return 0x02, int(flags), routing


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= _MAX_U32 else None


def _usage(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name)
    if isinstance(value, int | float) and value > _MAX_U32 and float(value).is_integer():
        raise ParlanceError("unrepresentable", f"{name} above what an M2M header carries")
    return _count(value) or 0


def _string(text: str) -> bytes:
    data = text.encode(errors="surrogatepass")
    if len(data) > 255:
        raise ParlanceError("unrepresentable", "a model or ID of more than 255 bytes")
    return bytes([len(data)]) + data
