"""Tensors (§10) in AVP frames (annex C)."""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass, field

from .errors import ProtocolError
from .frames import Reader, varint

HEADER = struct.Struct("<2sBBII")
COMPRESSED, HAS_MAP, KV_CACHE = 1, 2, 4
MAX_METADATA = 65_536
_SIZES = {0: 4, 1: 2, 2: 2, 3: 1}
_VARINT, _BYTES = 0, 2
_TYPES = {1: _BYTES, 2: _BYTES, 3: _BYTES, 4: _BYTES, 5: _VARINT, 6: _VARINT, 7: _VARINT, 8: _VARINT} | {
    10: _VARINT,
    11: _BYTES,
    13: _BYTES,
    14: _BYTES,
    15: _VARINT,
}
_LARGEST = {7: 1, 8: 3, 10: 1}
_TEXTS = {1, 2, 3, 4, 11, 13}


@dataclass
class Metadata:
    values: dict[int, int | bytes] = field(default_factory=dict)
    shape: list[int] = field(default_factory=list)

    def number(self, index: int) -> int:
        value = self.values.get(index, 0)
        return value if isinstance(value, int) else 0


def encode(shape: list[int], payload: bytes) -> bytes:
    """A hidden state of float32, whose checksum follows the frame (§10, body)."""
    packed = b"".join(varint(size) for size in shape)
    metadata = bytes([9 << 3 | _BYTES]) + varint(len(packed)) + packed
    header = HEADER.pack(b"AV", 1, 0, len(metadata) + len(payload), len(metadata))
    return header + metadata + payload + struct.pack("<I", zlib.crc32(payload))


def payload_size(body: bytes) -> int:
    """The bytes of the elements, which limits of tensors are about."""
    *_, length, metadata_length = HEADER.unpack_from(body)
    return int(length - metadata_length)


def check_header(start: bytes, total: int) -> tuple[int, int, int]:
    """TEN-2: what the first twelve bytes of a body of `total` bytes say. Flags, and the lengths of all and of the metadata."""
    magic, version, flags, length, metadata_length = HEADER.unpack_from(start)
    if magic != b"AV" or flags & ~7 or metadata_length > length:
        raise ProtocolError("bad_header", "the AVP header contradicts itself")
    if version != 1:
        raise ProtocolError("unknown_version", f"AVP version {version}")
    if metadata_length > MAX_METADATA:
        raise ProtocolError("metadata_too_large", f"{metadata_length} bytes of metadata")
    if HEADER.size + length > total:
        raise ProtocolError("truncated", "a tensor is shorter than its header states")
    if total - HEADER.size - length not in (0, 4):
        raise ProtocolError("trailing_bytes", "a tensor is longer than its header states")
    return flags, length, metadata_length


def verify(body: bytes) -> None:
    """TEN-1: all of a tensor is verified."""
    if len(body) < HEADER.size:
        raise ProtocolError("truncated", "an AVP header has 12 bytes")
    flags, length, metadata_length = check_header(body, len(body))
    metadata = read_metadata(body[HEADER.size : HEADER.size + metadata_length])
    stated = metadata.values.get(15)
    trailer = len(body) - HEADER.size - length
    if trailer == 4 and stated is not None:
        raise ProtocolError("trailing_bytes", "a tensor is longer than its header states")
    if bool(flags & HAS_MAP) != bool(metadata.values.get(13)) or bool(flags & KV_CACHE) != bool(metadata.number(7)):
        raise ProtocolError("bad_header", "flags contradict the metadata")
    if flags & COMPRESSED or metadata.values.get(11):
        raise ProtocolError("bad_compression", "this peer takes no compressed tensors")
    payload = body[HEADER.size + metadata_length : HEADER.size + length]
    if metadata.shape and len(payload) != math.prod(metadata.shape) * _SIZES[metadata.number(8)]:
        raise ProtocolError("bad_tensor", "shape and size do not fit")
    if trailer == 4:
        (stated,) = struct.unpack("<I", body[-4:])
    if stated is not None and zlib.crc32(payload) != stated:
        raise ProtocolError("bad_checksum", "the CRC of a tensor does not fit")


def read_metadata(data: bytes) -> Metadata:
    """Protocol Buffers, in any order; unknown fields are skipped (AVPF-4)."""
    metadata = Metadata()
    reader = Reader(data)
    try:
        while reader.offset < len(data):
            _field(reader, metadata)
    except ProtocolError as error:
        if error.code in ("truncated", "bad_varint"):
            raise ProtocolError("bad_message", "malformed metadata of AVP") from error
        raise
    if len(metadata.shape) > 64:
        raise ProtocolError("bad_tensor", "more than 64 dimensions")
    return metadata


def _field(reader: Reader, metadata: Metadata) -> None:
    key = reader.varint()
    number, wire = key >> 3, key & 7
    if wire == _VARINT:
        value: int | bytes = reader.varint(2**64 - 1)
    elif wire == _BYTES:
        value = reader.take(reader.varint())
    elif wire in (1, 5):
        value = reader.take(8 if wire == 1 else 4)
        return
    else:
        raise ProtocolError("bad_message", f"wire type {wire}")
    if number == 9:
        metadata.shape += [value] if isinstance(value, int) else _packed(value)
    elif _TYPES.get(number) == wire:
        if isinstance(value, int) and value > _LARGEST.get(number, 2**64):
            raise ProtocolError("bad_message", "an unknown value of an enum")
        if number in _TEXTS and isinstance(value, bytes):
            _assert_utf8(value)
        metadata.values[number] = value


def _packed(data: bytes) -> list[int]:
    reader = Reader(data)
    numbers = []
    while reader.offset < len(data):
        numbers.append(reader.varint(2**32 - 1))
    return numbers


def _assert_utf8(value: bytes) -> None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError("bad_utf8", "a text in the metadata of AVP") from error
