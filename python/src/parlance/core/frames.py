"""Frames of the link: kinds, codecs, flags, and the heads of bodies (part 4)."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Any, Final

from .errors import ParlanceError, RequestError, is_application_code, is_protocol_code
from .maps import Fields, pack, unpack
from .wire import Buffer, read_varint, varint

MESSAGE: Final = 0x10
REQUEST: Final = 0x11
RESPONSE: Final = 0x12
CHUNK: Final = 0x13
END: Final = 0x14
ERROR: Final = 0x15
CANCEL: Final = 0x16
ALIAS: Final = 0x17
ACK: Final = 0x18
CREDIT: Final = 0x19

PLAIN: Final = 0
TOKEN_NATIVE: Final = 1
M2M: Final = 2
BROTLI: Final = 3
CONTEXT: Final = 4
AVP: Final = 5
TOKEN: Final = 6
DICTIONARY: Final = 7

MORE: Final = 0x10
SECRET: Final = 0x20
ADDRESSED: Final = 0x40
META: Final = 0x80

#: Codecs whose first frame states the length of the content.
EXPANDING: Final = frozenset({M2M, BROTLI, TOKEN, DICTIONARY})
#: The algorithm that has to be agreed on for a codec; AVP needs none, and CONTEXT is an extension.
ALGORITHM_OF: Final = {
    PLAIN: "NONE",
    TOKEN_NATIVE: "TOKEN_NATIVE",
    M2M: "M2M",
    BROTLI: "BROTLI",
    TOKEN: "TOKEN",
    DICTIONARY: "DICTIONARY",
}
CODEC_OF: Final = {name: codec for codec, name in ALGORITHM_OF.items()} | {"CONTEXT": CONTEXT}

MAX_STREAM: Final = 2**32 - 1
MAX_PIECE: Final = 65_536
MAX_TENSOR_PIECE: Final = 262_144
#: Charged for each body beside its bytes.
BODY_CHARGE: Final = 16
MAX_ERROR_FRAME: Final = 16_384
MAX_ERROR_DATA: Final = 8_192


@dataclass(slots=True)
class Head:
    """The fields of a body's first frame beside its bytes, and where these begin."""

    codec: int
    flags: int
    agent: int | None
    total: int | None
    expanded: int | None
    metadata: bytes | None
    at: int


def read_head(data: Buffer, at: int, max_metadata: int) -> Head:
    """Read the head of the first frame of a body.

    Parameters
    ----------
    at : int
        Where the byte of codec and flags is.

    Raises
    ------
    ParlanceError
        `bad_frame`, `truncated`, `bad_varint`, `metadata_too_large`.
    """
    if at >= len(data):
        raise ParlanceError("truncated", "a frame without a codec")
    flags = data[at]
    codec = flags & 0x0F
    at += 1
    if codec > DICTIONARY:
        raise ParlanceError("bad_frame", f"unknown codec {codec}")
    agent = total = expanded = None
    metadata = None
    if flags & ADDRESSED:
        agent, at = read_varint(data, at)
    if flags & MORE:
        total, at = read_varint(data, at)
    if codec in EXPANDING:
        expanded, at = read_varint(data, at)
    if flags & META:
        length, at = read_varint(data, at)
        if length > max_metadata:
            raise ParlanceError("metadata_too_large", f"metadata of {length} bytes")
        metadata = bytes(data[at : at + length])
        at += length
        if len(metadata) < length:
            raise ParlanceError("truncated", "metadata are cut off")
    return Head(codec, flags, agent, total, expanded, metadata, at)


def count_frame(count: int) -> bytes:
    """Write an acknowledgement."""
    return b"\x18" + varint(count)


def credit_frame(stream: int, limit: int) -> bytes:
    """Write a statement of credit."""
    return b"\x19" + varint(stream) + varint(limit)


def alias_frame(number: int, name: str) -> bytes:
    """Announce a name under a number."""
    return b"\x17" + varint(number) + name.encode()


def signal_frame(kind: int, stream: int, rest: bytes = b"") -> bytes:
    """Write END, ERROR or CANCEL."""
    return bytes([kind]) + varint(stream) + rest


def error_map(error: BaseException) -> bytes:
    """Write the map of an error frame.

    An error of the application has `retryable`, one of the protocol has not (STR-12). The text of any other
    exception is not told (STR-14).
    """
    if not isinstance(error, ParlanceError):
        return pack({"code": "internal", "message": "the handler failed"})
    value: dict[str, Any] = {"code": error.code, "message": cut(error.message, 1_024)}
    if isinstance(error, RequestError):
        value["retryable"] = error.retryable
        if error.data is not None:
            with contextlib.suppress(TypeError, ValueError, RecursionError):
                data = json.dumps(error.data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
                if len(data.encode()) <= MAX_ERROR_DATA:
                    value["data"] = data
    if error.retry_after is not None:
        value["retry_after_ms"] = max(0, round(error.retry_after * 1_000))
    return pack(value)


def cut(text: str, most: int) -> str:
    """Return a text that can be sent, of at most so many bytes."""
    return text.encode(errors="replace")[:most].decode(errors="ignore")


def error_of(data: Buffer) -> ParlanceError:
    """Read the map of an error frame.

    Raises
    ------
    ParlanceError
        `message_too_large`, `bad_message`.
    """
    if len(data) > MAX_ERROR_FRAME:
        raise ParlanceError("message_too_large", f"an error frame of {len(data)} bytes")
    value = unpack(data)
    code = Fields(value, "error").text("code", 64, 1)
    if not is_application_code(code) or code is None:
        raise ParlanceError("bad_message", "an error frame without a sound code")
    message = value.get("message")
    data_text = value.get("data")
    try:
        attached = json.loads(data_text) if type(data_text) is str else None
    except (ValueError, RecursionError):
        raise ParlanceError("bad_message", "the data of an error frame are not JSON") from None
    after = value.get("retry_after_ms")
    seconds = after / 1_000 if isinstance(after, int | float) and not isinstance(after, bool) else None
    text = message if type(message) is str else code
    if "retryable" in value or not is_protocol_code(code):
        return RequestError(code, text, retryable=value.get("retryable") is True, retry_after=seconds, data=attached)
    return ParlanceError(code, text, retry_after=seconds, data=attached)
