"""Context (§9): bodies coded against earlier ones of the same direction, and the state that both ends keep."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import zstandard

from .errors import ProtocolError
from .expansion import largest_expansion
from .frames import MAX_MESSAGE, Reader, varint

NO_BASE, LAST_PART, NEWEST = 0, 1, 2
MAX_LAST_PART = 4096
MAX_HEAD = 512
_COMPRESSED_FROM = 64


@dataclass(eq=False)
class Base:
    content: bytes
    uses: int = 0


@dataclass
class _Stream:
    last: Base | None = None
    crc: int = 0


@dataclass
class State:
    """CTX-8: the state of one direction."""

    max_bytes: int
    max_messages: int
    list: list[Base] = field(default_factory=list)
    """Newest first."""
    _streams: dict[int, _Stream] = field(default_factory=dict)
    _under_way: dict[int, Base | None] = field(default_factory=dict)

    def base_at(self, number: int, stream: int) -> Base | None:
        if number == LAST_PART:
            return self._streams[stream].last if stream in self._streams else None
        index = number - NEWEST
        return self.list[index] if 0 <= index < len(self.list) else None

    def begin(self, stream: int, number: int) -> Base | None:
        """The first frame of a body: its base is in use until the last one."""
        base = self.base_at(number, stream)
        if base is not None:
            base.uses += 1
        self._under_way[stream] = base
        return base

    def base_of(self, stream: int) -> Base | None:
        return self._under_way.get(stream)

    def abandon(self, stream: int) -> None:
        base = self._under_way.pop(stream, None)
        if base is not None:
            base.uses -= 1

    def complete(self, stream: int, content: bytes, is_part: bool, replaces: bool) -> None:
        base = self._under_way.get(stream)
        self.abandon(stream)
        if is_part:
            state = self._streams.setdefault(stream, _Stream())
            state.crc = zlib.crc32(content, state.crc)
            if len(content) <= MAX_LAST_PART:
                state.last = Base(content)
                return
        self._enter(content, base if replaces else None)

    def _enter(self, content: bytes, replaced: Base | None) -> None:
        staying = list(self.list)

        def fits() -> bool:
            size = sum(len(base.content) for base in staying)
            return size + len(content) <= self.max_bytes and len(staying) < self.max_messages

        if replaced is not None and replaced.uses == 0 and replaced in staying:
            staying.remove(replaced)
        for base in reversed(self.list):
            if fits():
                break
            if base.uses == 0 and base in staying:
                staying.remove(base)
        if fits():
            self.list = [Base(content), *staying]

    def end(self, stream: int) -> int | None:
        """The CRC-32 that END carries, if any part came in context."""
        self.abandon(stream)
        state = self._streams.pop(stream, None)
        return None if state is None else state.crc


class Encoder:
    """Codes bodies when their first frame is written."""

    def __init__(self, max_bytes: int, max_messages: int) -> None:
        self.state = State(max_bytes, max_messages)
        self._coded: dict[int, tuple[bytes, bool, bool]] = {}

    def begin(self, stream: int, content: bytes, is_part: bool) -> bytes:
        number = self._choose(stream, content, is_part)
        base = self.state.begin(stream, number)
        prefix, suffix = _shared(base.content, content) if base is not None else (0, 0)
        middle = content[prefix : len(content) - suffix]
        packed = _compress(middle, base) if len(middle) > _COMPRESSED_FROM else middle
        compressed = len(packed) < len(middle) and len(middle) <= largest_expansion(len(packed))
        # A message that continues its base takes its place; others leave theirs where it is.
        replaces = number >= NEWEST and prefix + suffix > len(content) // 2
        head = varint(number * 4 + replaces * 2 + compressed)
        shared = varint(prefix) + varint(suffix) if base is not None else b""
        crc = b"" if is_part else struct.pack("<I", zlib.crc32(content))
        self._coded[stream] = (content, is_part, replaces)
        return head + shared + crc + (packed if compressed else middle)

    def complete(self, stream: int) -> None:
        self.state.complete(stream, *self._coded.pop(stream))

    def abandon(self, stream: int) -> None:
        self._coded.pop(stream, None)
        self.state.abandon(stream)

    def end(self, stream: int) -> bytes:
        crc = self.state.end(stream)
        return b"" if crc is None else struct.pack("<I", crc)

    def _choose(self, stream: int, content: bytes, is_part: bool) -> int:
        numbers = range(NEWEST, NEWEST + len(self.state.list))
        candidates = [LAST_PART, *numbers] if is_part else list(numbers)
        best, most = NO_BASE, 0
        for number in candidates:
            base = self.state.base_at(number, stream)
            if base is not None and sum(_shared(base.content, content)) > most:
                best, most = number, sum(_shared(base.content, content))
        return best


class Decoder:
    """Must see every body in context of one direction, in order."""

    def __init__(self, max_bytes: int, max_messages: int) -> None:
        self.state = State(max_bytes, max_messages)

    def begin(self, stream: int, first: bytes) -> None:
        """CTX-1, CTX-2: the base is looked up when the first frame arrives."""
        head = Reader(first).varint(MAX_HEAD)
        base = self.state.begin(stream, head // 4)
        if head // 4 != NO_BASE and base is None:
            raise ProtocolError("bad_frame", f"base {head // 4} does not exist")
        if head & 2 and head // 4 < NEWEST:
            raise ProtocolError("bad_frame", "only a base of the list can be replaced")

    def complete(self, stream: int, coded: bytes, is_part: bool) -> bytes:
        reader = Reader(coded)
        head = reader.varint(MAX_HEAD)
        base = self.state.base_of(stream)
        known = b"" if base is None else base.content
        prefix, suffix = (reader.varint(), reader.varint()) if base is not None else (0, 0)
        if prefix + suffix > len(known):
            raise ProtocolError("bad_frame", "a body takes more from its base than there is")
        crc = None if is_part else struct.unpack("<I", reader.take(4))[0]
        middle = reader.rest()
        if head & 1:
            middle = _decompress(middle, base, largest_expansion(len(middle)) + len(known))
        content = known[:prefix] + middle + known[len(known) - suffix :]
        if len(content) > MAX_MESSAGE:
            raise ProtocolError("message_too_large", "a message above the limit")
        if crc is not None and zlib.crc32(content) != crc:
            raise ProtocolError("bad_checksum", "the CRC of a message does not fit")
        self.state.complete(stream, content, is_part, bool(head & 2))
        return content

    def end(self, stream: int, trailer: bytes) -> None:
        """CTX-7."""
        crc = self.state.end(stream)
        expected = b"" if crc is None else struct.pack("<I", crc)
        if len(trailer) != len(expected):
            raise ProtocolError("truncated" if len(trailer) < len(expected) else "trailing_bytes", "the body of END")
        if trailer != expected:
            raise ProtocolError("bad_checksum", "the CRC of the parts does not fit")


def _shared(base: bytes, content: bytes) -> tuple[int, int]:
    """How many bytes the two begin and end with, without counting any twice."""
    most = min(len(base), len(content))
    prefix = _longest(most, lambda length: base[:length] == content[:length])
    most -= prefix
    return prefix, _longest(most, lambda length: base[len(base) - length :] == content[len(content) - length :])


def _longest(most: int, matches: Callable[[int], bool]) -> int:
    """The largest length that matches, if all shorter ones do."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if matches(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _dictionary(base: Base | None) -> zstandard.ZstdCompressionDict | None:
    """CTX-4: the whole base as raw content; one of fewer than 8 bytes is none."""
    if base is None or len(base.content) < 8:
        return None
    return zstandard.ZstdCompressionDict(base.content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _compress(middle: bytes, base: Base | None) -> bytes:
    return zstandard.ZstdCompressor(level=3, dict_data=_dictionary(base)).compress(middle)


def _decompress(frame: bytes, base: Base | None, most: int) -> bytes:
    if frame[:4] != b"\x28\xb5\x2f\xfd":
        raise ProtocolError("bad_compression", "not a zstd frame")
    decompressor = zstandard.ZstdDecompressor(max_window_size=2**27, dict_data=_dictionary(base))
    try:
        if len(decompressor.stream_reader(frame).read(most + 1)) > most:
            raise ProtocolError("decompressed_too_large", "a zstd frame expands too far")
        whole = decompressor.decompressobj()
        content = whole.decompress(frame)
    except zstandard.ZstdError as error:
        raise ProtocolError("bad_compression", str(error)) from error
    if not whole.eof or whole.unused_data:
        raise ProtocolError("bad_compression", "not exactly one zstd frame")
    return content
