"""Bodies that arrive (§4, cutting)."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import codecs
from .control import Fields, unpack_map
from .errors import ProtocolError
from .frames import Codec, Flag, Frame, Head

METADATA_ENTRIES = 256


@dataclass
class Message:
    """A body that has arrived. It is decoded when it is read (§14, errors of decoding)."""

    codec: Codec
    coded: bytes
    expanded: int | None = None
    packed_metadata: bytes | None = None
    decoded: bytes | None = None

    @property
    def content(self) -> bytes:
        return codecs.decode(self.coded, self.codec, self.expanded) if self.decoded is None else self.decoded

    @property
    def metadata(self) -> Fields:
        return {} if self.packed_metadata is None else unpack_map(self.packed_metadata, "metadata", METADATA_ENTRIES)


@dataclass
class Incoming:
    """A body whose frames arrive."""

    frame: Frame
    head: Head
    pieces: list[bytes] = field(default_factory=list)
    length: int = 0
    is_checked: bool = False
    """The header of a tensor was looked at."""

    def add(self, frame: Frame) -> None:
        """LINK-8, LINK-9."""
        first = self.frame
        if (frame.kind, frame.codec) != (first.kind, first.codec) or frame.flags & (Flag.META | Flag.ADDRESSED):
            raise ProtocolError("bad_frame", "a frame that does not continue its body")
        self.pieces.append(frame.rest)
        self.length += len(frame.rest)
        total = self.head.total or 0
        has_more = Flag.MORE in frame.flags
        if not frame.rest or self.length > total or (has_more and self.length >= total):
            raise ProtocolError("bad_frame", "a body that does not have the bytes that it states")
