"""M2M v1 without its prefix and without protection (annex A). It writes the schema `custom`, and reads every schema."""

from __future__ import annotations

import struct
import zlib

from .brotli_stream import compress, decompress
from .errors import ProtocolError
from .expansion import largest_expansion
from .frames import Reader

CUSTOM = 0xFE
STREAM = 0x03
COMPRESSED = 1 << 24
_REQUESTS = {0x01, 0x04, 0x11}
_RESPONSES = {0x02, 0x05, 0x10, 0x12}
_REQUEST_FLAGS = 0x7FFF
_RESPONSE_FLAGS = 0xFF
_HAS_MAX_TOKENS = 1 << 6
_HAS_CACHED, _HAS_REASONING, _HAS_COST = 1 << 5, 1 << 6, 1 << 7
_COMPRESSED_FROM = 100


def encode(content: bytes) -> bytes | None:
    """A frame of the schema `custom`, which carries any UTF-8 text."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return None
    payload, flags = content, 0
    if len(content) >= _COMPRESSED_FROM:
        packed = compress(content)
        if len(packed) < len(content) <= largest_expansion(len(packed)):
            payload, flags = packed, COMPRESSED
    header = struct.pack("<HBBI12x", 20, CUSTOM, 0, flags)
    return header + struct.pack("<II", len(payload), zlib.crc32(content)) + payload


def decode(frame: bytes, most: int) -> bytes:
    """The text (M2M-1 to M2M-3)."""
    if len(frame) < 20:
        raise ProtocolError("truncated", "an M2M header has 20 bytes")
    length, schema, security, flags = struct.unpack_from("<HBBI", frame)
    if length < 20 or any(frame[8:20]):
        raise ProtocolError("bad_header", "the fixed header of M2M is wrong")
    if security != 0:
        raise ProtocolError("security_required" if security < 3 else "unknown_security_mode", "protected, or unknown")
    if len(frame) < length:
        raise ProtocolError("truncated", "the header of M2M is cut off")
    _check_routing(schema, flags, Reader(frame[20:length]))
    tail = Reader(frame[length:])
    payload_length, crc = struct.unpack("<II", tail.take(8))
    payload = tail.take(payload_length)
    if tail.rest():
        raise ProtocolError("trailing_bytes", "bytes after the payload of M2M")
    content = decompress(payload, most) if flags & COMPRESSED else payload
    if zlib.crc32(content) != crc:
        raise ProtocolError("bad_checksum", "the CRC of an M2M payload does not fit")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError("bad_utf8", "an M2M payload is not UTF-8") from error
    return content


def _check_routing(schema: int, flags: int, reader: Reader) -> None:
    if schema in _REQUESTS:
        allowed = _REQUEST_FLAGS
        _request(flags, reader)
    elif schema in _RESPONSES:
        allowed = _RESPONSE_FLAGS
        _response(flags, reader)
    elif schema in (STREAM, CUSTOM):
        allowed = 0
    else:
        raise ProtocolError("unknown_schema", f"schema 0x{schema:02x}")
    if flags & ~(allowed | COMPRESSED) or reader.rest():
        raise ProtocolError("bad_header", "flags or bytes that the schema does not have")


def _request(flags: int, reader: Reader) -> None:
    _text(reader)
    count = reader.varint(2**32 - 1)
    roles = reader.take((count + 3) // 4)
    if count % 4 and roles[-1] >> (count % 4 * 2):
        raise ProtocolError("bad_header", "bits after the last role")
    reader.varint(2**32 - 1)
    if flags & _HAS_MAX_TOKENS:
        reader.varint(2**32 - 1)
    if reader.rest():
        _cost(reader)


def _response(flags: int, reader: Reader) -> None:
    _text(reader)
    _text(reader)
    reader.byte()
    for _ in range(2 + bool(flags & _HAS_CACHED) + bool(flags & _HAS_REASONING)):
        reader.varint(2**32 - 1)
    if flags & _HAS_COST:
        _cost(reader)


def _text(reader: Reader) -> str:
    try:
        return reader.take(reader.byte()).decode()
    except UnicodeDecodeError as error:
        raise ProtocolError("bad_utf8", "a text in an M2M header") from error


def _cost(reader: Reader) -> None:
    (cost,) = struct.unpack("<f", reader.take(4))
    if not 0 <= cost < float("inf"):
        raise ProtocolError("bad_header", "a cost that is negative or not finite")
