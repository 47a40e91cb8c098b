"""Control messages (§2): maps in MessagePack, or in JSON for `m2m.v1.json`."""

from __future__ import annotations

import json
import time
from typing import Any

import msgpack

from .errors import ProtocolError

Fields = dict[str, Any]

BINARY = "m2m.v1"
JSON_ENVELOPES = "m2m.v1.json"
MAX_BEFORE_ACCEPT = 65_536
MAX_AFTER_ACCEPT = 20_480
MAX_ENTRIES = 512
MAX_DEPTH = 32


def pack(fields: Fields) -> bytes:
    return bytes(msgpack.packb(fields))


def unpack_map(data: bytes, what: str, most_entries: int) -> Fields:
    """One map, with texts as keys and without extension types (CTL-11)."""
    try:
        value = msgpack.unpackb(data, strict_map_key=False, ext_hook=_refuse_extension)
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError("bad_message", f"{what} is not MessagePack: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError("bad_message", f"{what} is not a map")
    if _entries(value, 1) > most_entries:
        raise ProtocolError("metadata_too_large" if what == "metadata" else "message_too_large", f"{what} has too many entries")
    return value


def _refuse_extension(code: int, data: bytes) -> Any:
    raise ProtocolError("bad_message", f"extension type {code}")


def _entries(value: Any, depth: int) -> int:
    """Entries of all lists and maps; an empty one counts as one (CTL-10)."""
    if isinstance(value, msgpack.Timestamp):
        raise ProtocolError("bad_message", "an extension type")
    if not isinstance(value, (dict, list)):
        return 0
    if depth > MAX_DEPTH:
        raise ProtocolError("json_too_deep", "maps and lists nest too deep")
    members = list(value.values()) if isinstance(value, dict) else value
    if isinstance(value, dict) and not all(isinstance(key, (str, int)) and key != "__proto__" for key in value):
        raise ProtocolError("bad_message", "a key that is not a text")
    return max(1, len(members)) + sum(_entries(member, depth + 1) for member in members)


def encode(kind: str, session_id: str | None, payload: Fields, subprotocol: str = BINARY) -> bytes | str:
    fields = {
        "type": kind,
        "session_id": session_id,
        "timestamp": int(time.time() * 1000),
        "payload": payload,
    }
    return pack(fields) if subprotocol == BINARY else json.dumps(fields)


def decode(message: bytes | str, most: int) -> Fields:
    """The envelope, checked as its table says (CTL-1). `most` is CTL-9."""
    if len(message) > most:
        raise ProtocolError("message_too_large", f"a control message of {len(message)} bytes")
    if isinstance(message, bytes):
        fields = unpack_map(message, "a control message", MAX_ENTRIES)
    else:
        try:
            fields = json.loads(message)
        except ValueError as error:
            raise ProtocolError("bad_json", str(error)) from error
        if not isinstance(fields, dict):
            raise ProtocolError("bad_message", "an envelope is a map")
        if _entries(fields, 1) > MAX_ENTRIES:
            raise ProtocolError("message_too_large", "too many entries")
    expect(fields, "type", str, required=True)
    expect(fields, "session_id", str)
    expect(fields, "timestamp", int, required=True)
    expect(fields, "payload", dict)
    return fields


def expect(fields: Fields, name: str, kind: type | tuple[type, ...], required: bool = False) -> Any:
    """A member of a map; null counts as absent."""
    value = fields.get(name)
    if value is None and not required:
        return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise ProtocolError("bad_message", f"{name} is not as it has to be")
    return value


def is_map(first: int) -> bool:
    """Whether the first byte of a frame is that of a control message (§1)."""
    return 0x80 <= first <= 0x8F or first in (0xDE, 0xDF)
