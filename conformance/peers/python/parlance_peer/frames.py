"""Link frames as bytes (§4, frames)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

from .errors import ProtocolError

MAX_PIECE = 65_536
MAX_TENSOR_PIECE = 262_144
MAX_METADATA = 8_192
MAX_MESSAGE = 16_777_216
MAX_VARINT = 2**53 - 1


class Kind(IntEnum):
    MESSAGE = 0
    REQUEST = 1
    RESPONSE = 2
    CHUNK = 3
    END = 4
    ERROR = 5
    CANCEL = 6
    ALIAS = 7
    ACK = 8
    CREDIT = 9


class Codec(IntEnum):
    NONE = 0
    TOKEN_NATIVE = 1
    M2M = 2
    BROTLI = 3
    CONTEXT = 4
    AVP = 5
    TOKEN = 6
    DICTIONARY = 7


class Flag(IntFlag):
    MORE = 0x10
    SECRET = 0x20
    ADDRESSED = 0x40
    META = 0x80


SIZED = frozenset({Codec.M2M, Codec.BROTLI, Codec.TOKEN, Codec.DICTIONARY})


@dataclass(frozen=True)
class Frame:
    kind: Kind
    stream: int
    codec: Codec
    flags: Flag
    rest: bytes


@dataclass(frozen=True)
class Head:
    """The fields of the first frame of a body."""

    total: int | None
    expanded: int | None
    metadata: bytes | None
    content: bytes


class Reader:
    """Reads bytes in order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    def take(self, length: int) -> bytes:
        piece = self.data[self.offset : self.offset + length]
        if len(piece) < length:
            raise ProtocolError("truncated", "the bytes end too early")
        self.offset += length
        return piece

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self, most: int = MAX_VARINT) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if value > most or (byte == 0 and shift > 0):
                raise ProtocolError("bad_varint", "a varint is too large or not in its shortest form")
            if byte < 0x80:
                return value
            shift += 7

    def rest(self) -> bytes:
        return self.data[self.offset :]


def varint(value: int) -> bytes:
    """Unsigned LEB128 in its shortest form."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signal(kind: Kind, number: int, rest: bytes = b"") -> bytes:
    """A frame of a kind without a body."""
    return bytes([0x10 | kind]) + varint(number) + rest


def body_frame(kind: Kind, stream: int, codec: Codec, flags: int, rest: bytes) -> bytes:
    return bytes([0x10 | kind]) + varint(stream) + bytes([flags | codec]) + rest


def parse(data: bytes) -> Frame:
    """LINK-3: unknown kinds and codecs, and frames that end early, are refused."""
    reader = Reader(data)
    first = reader.byte()
    if first & 0x0F > Kind.CREDIT:
        raise ProtocolError("bad_frame", "an unknown kind of link frame")
    kind = Kind(first & 0x0F)
    stream = reader.varint(MAX_VARINT if kind >= Kind.ACK else 2**32 - 1)
    if kind > Kind.CHUNK:
        return Frame(kind, stream, Codec.NONE, Flag(0), reader.rest())
    third = reader.byte()
    if third & 0x0F > Codec.DICTIONARY:
        raise ProtocolError("bad_frame", "an unknown codec")
    return Frame(kind, stream, Codec(third & 0x0F), Flag(third & 0xF0), reader.rest())


def parse_head(frame: Frame) -> Head:
    """The fields of a first frame; their bounds are LINK-9, LINK-11 and LINK-13."""
    reader = Reader(frame.rest)
    total = reader.varint() if Flag.MORE in frame.flags else None
    expanded = reader.varint() if frame.codec in SIZED else None
    metadata = None
    if Flag.META in frame.flags:
        length = reader.varint()
        if length > MAX_METADATA:
            raise ProtocolError("metadata_too_large", f"{length} bytes of metadata")
        metadata = reader.take(length)
    content = reader.rest()
    if max(total or 0, expanded or 0, len(content)) > MAX_MESSAGE:
        raise ProtocolError("message_too_large", "a body above the message limit")
    is_empty = frame.codec == Codec.AVP and not content
    if total is not None and (len(content) >= total or is_empty):
        raise ProtocolError("bad_frame", "a first frame with too many bytes, or of a tensor without any")
    return Head(total, expanded, metadata, content)
