"""Messages coded against earlier ones of the same direction (part 9)."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any, Final

from . import zstd
from .errors import ParlanceError
from .wire import Buffer, read_varint, varint

MAX_HEAD: Final = 512
#: A larger part goes to the list of messages.
MAX_LAST_PART: Final = 4_096
#: A shorter middle is not compressed.
MIN_MIDDLE: Final = 64
#: Below so many bytes in common a base is not worth its numbers.
MIN_COMMON: Final = 12
_EXPANSION: Final = 65_536


@dataclass(slots=True, eq=False)
class Entry:
    """A message that both ends keep, and the number of bodies under way that are coded against it."""

    content: bytes
    uses: int = 0
    _dictionary: Any = None

    @property
    def dictionary(self) -> Any:
        """The content as a dictionary of zstd, made once."""
        if self._dictionary is None:
            self._dictionary = zstd.dictionary_of(self.content)
        return self._dictionary


@dataclass(slots=True)
class _Parts:
    """The kept parts of one stream."""

    last: Entry | None = None
    crc: int = 0


@dataclass(slots=True)
class ContextState:
    """The state that both ends keep of one direction (CTX-8): `createState` of the document, method for method."""

    max_bytes: int
    max_messages: int
    #: Newest first.
    messages: list[Entry] = field(default_factory=list)
    _streams: dict[int, _Parts] = field(default_factory=dict)
    _under_way: dict[int, Entry | None] = field(default_factory=dict)

    def base_of(self, number: int, stream: int) -> Entry | None:
        """Return the base with this number; `None` if there is none."""
        if number == 1:
            parts = self._streams.get(stream)
            return parts.last if parts is not None else None
        return self.messages[number - 2] if 1 < number < len(self.messages) + 2 else None

    def begin(self, stream: int, number: int) -> Entry | None:
        """Note that the first frame of a body is written or has arrived."""
        base = self.base_of(number, stream)
        if base is not None:
            base.uses += 1
        self._under_way[stream] = base
        return base

    def base_under_way(self, stream: int) -> Entry | None:
        """Return the base of the body that is under way on a stream."""
        return self._under_way.get(stream)

    def abandon(self, stream: int) -> None:
        """Note that CANCEL, END or ERROR has cut a body short."""
        base = self._under_way.pop(stream, None)
        if base is not None:
            base.uses -= 1

    def complete(self, stream: int, content: bytes, *, is_part: bool, replaces: bool) -> None:
        """Note that the last frame of a body is written or has arrived."""
        base = self._under_way.get(stream)
        self.abandon(stream)
        if is_part:
            parts = self._streams.setdefault(stream, _Parts())
            parts.crc = zlib.crc32(content, parts.crc)
            if len(content) <= MAX_LAST_PART:
                parts.last = Entry(content)
                return
        self._keep(content, base if replaces else None)

    def _keep(self, content: bytes, replaced: Entry | None) -> None:
        staying = list(self.messages)
        if replaced is not None and replaced.uses == 0 and replaced in staying:
            staying.remove(replaced)
        size = len(content) + sum(len(entry.content) for entry in staying)
        for entry in reversed(list(staying)):
            if size <= self.max_bytes and len(staying) < self.max_messages:
                break
            if entry.uses == 0:
                staying.remove(entry)
                size -= len(entry.content)
        if size <= self.max_bytes and len(staying) < self.max_messages:
            self.messages = [Entry(content), *staying]

    def end(self, stream: int) -> int | None:
        """Note END or ERROR of a stream, and return the CRC-32 that END carries; `None` for none."""
        self.abandon(stream)
        parts = self._streams.pop(stream, None)
        return parts.crc if parts is not None else None


@dataclass(slots=True)
class CodedBody:
    """A body in context: its bytes, and what its head says."""

    data: bytes
    base: int
    replaces: bool


class ContextEncoder:
    """Codes what this end sends."""

    def __init__(self, max_bytes: int, max_messages: int) -> None:
        self.state = ContextState(max_bytes, max_messages)

    def encode(self, stream: int, content: bytes, *, is_part: bool) -> CodedBody:
        """Code a message against the base with which it has most in common."""
        number, base, prefix, suffix = self._choose(stream, content, is_part)
        middle = content[prefix : len(content) - suffix] if base is not None else content
        is_compressed = False
        if len(middle) > MIN_MIDDLE:
            packed = zstd.compress(middle, base.dictionary if base is not None else None)
            bound = _bound(len(packed), base)
            if len(packed) < len(middle) <= bound:
                middle, is_compressed = packed, True
        replaces = number > 1 and prefix + suffix >= len(base.content) // 2 if base is not None else False
        head = [varint(number * 4 + replaces * 2 + is_compressed)]
        if base is not None:
            head += [varint(prefix), varint(suffix)]
        if not is_part:
            head.append(struct.pack("<I", zlib.crc32(content)))
        return CodedBody(b"".join([*head, middle]), number, replaces)

    def _choose(self, stream: int, content: bytes, is_part: bool) -> tuple[int, Entry | None, int, int]:
        last = self.state.base_of(1, stream) if is_part else None
        candidates = [(1, last)] if last is not None else list(enumerate(self.state.messages, 2))
        best: tuple[int, Entry | None, int, int] = (0, None, 0, 0)
        most = MIN_COMMON if last is None else 3
        for number, entry in candidates:
            prefix = common_prefix(content, entry.content)
            suffix = common_suffix(content, entry.content, min(len(content), len(entry.content)) - prefix)
            if prefix + suffix > most:
                most, best = prefix + suffix, (number, entry, prefix, suffix)
        if best[1] is None and self.state.messages and not is_part and len(content) > 4 * MIN_MIDDLE:
            # Nothing at the ends; passages in between may still repeat.
            return 2, self.state.messages[0], 0, 0
        return best


class ContextDecoder:
    """Decodes what this end receives."""

    def __init__(self, max_bytes: int, max_messages: int) -> None:
        self.state = ContextState(max_bytes, max_messages)

    def begin(self, stream: int, first: Buffer) -> None:
        """Read the head of a body from the bytes of its first frame (CTX-1, CTX-2).

        Raises
        ------
        ParlanceError
            `bad_frame`, `truncated`, `bad_varint`.
        """
        head, _ = read_varint(first, 0)
        number = head >> 2
        if head > MAX_HEAD:
            raise ParlanceError("bad_varint", f"a head of {head}")
        if head & 2 and number < 2:
            raise ParlanceError("bad_frame", "a body that takes the place of no message")
        if number and self.state.base_of(number, stream) is None:
            raise ParlanceError("bad_frame", f"there is no base {number}")
        self.state.begin(stream, number)

    def complete(self, stream: int, body: bytes, *, is_part: bool, most: int) -> bytes:
        """Decode a body when its last frame has arrived.

        Raises
        ------
        ParlanceError
            `bad_frame`, `bad_checksum`, `bad_compression`, `decompressed_too_large`, `message_too_large`.
        """
        head, at = read_varint(body, 0)
        base = self.state.base_under_way(stream)
        prefix = suffix = 0
        if head >> 2:
            prefix, at = read_varint(body, at)
            suffix, at = read_varint(body, at)
        known = base.content if base is not None else b""
        if prefix + suffix > len(known):
            raise ParlanceError("bad_frame", "prefix and suffix are longer than their base")
        crc = None
        if not is_part:
            if len(body) < at + 4:
                raise ParlanceError("truncated", "a body in context without its CRC")
            (crc,) = struct.unpack_from("<I", body, at)
            at += 4
        middle = body[at:]
        bound = min(_bound(len(middle), base), max(0, most - prefix - suffix))
        if head & 1:
            middle = zstd.decompress(middle, bound, base.dictionary if base is not None else None)
        content = known[:prefix] + middle + known[len(known) - suffix :]
        if len(content) > most:
            raise ParlanceError("message_too_large", f"a message of {len(content)} bytes")
        if crc is not None and zlib.crc32(content) != crc:
            raise ParlanceError("bad_checksum", "the CRC does not fit the message")
        self.state.complete(stream, content, is_part=is_part, replaces=bool(head & 2))
        return content

    def end(self, stream: int, rest: Buffer) -> None:
        """Check the CRC of an END (CTX-7).

        Raises
        ------
        ParlanceError
            `bad_checksum`, `truncated`, `trailing_bytes`.
        """
        crc = self.state.end(stream)
        if crc is None:
            if len(rest):
                raise ParlanceError("trailing_bytes", "an END with a CRC although no part came in context")
        elif len(rest) != 4:
            raise ParlanceError("truncated" if len(rest) < 4 else "trailing_bytes", "the CRC of an END")
        elif struct.unpack("<I", rest)[0] != crc:
            raise ParlanceError("bad_checksum", "the CRC of an END does not fit its parts")


def _bound(coded: int, base: Entry | None) -> int:
    """Return how many bytes a middle may expand to (COD-1)."""
    return _EXPANSION + 100 * coded + (len(base.content) if base is not None else 0)


def common_prefix(a: bytes, b: bytes) -> int:
    """Return how many bytes both begin with."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    step = 64
    while low + step < high and a[low : low + step] == b[low : low + step]:
        low += step
        step *= 2
    high = min(high, low + step)
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(a: bytes, b: bytes, most: int) -> int:
    """Return how many of the last `most` bytes both end with."""
    if most <= 0:
        return 0
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle - 1
    return low
