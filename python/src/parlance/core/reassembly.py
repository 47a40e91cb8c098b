"""Bodies that arrive in several frames."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from .errors import ParlanceError
from .frames import Head

AVP_HEAD: Final = 12
#: The largest metadata of an AVP frame, and what `total` may be above the limit of a payload (TEN-6).
MAX_AVP_METADATA: Final = 65_536
_SLACK: Final = 66_560


@dataclass(slots=True)
class Assembly:
    """A body of which the first frame has arrived."""

    kind: int
    head: Head
    sender: str | None
    missing: int
    charge: int = 0
    parts: list[bytes] = field(default_factory=list)
    #: A tensor is malformed: its frames are dropped until it ends or is cancelled.
    refused: bool = False
    tensor: TensorAssembly | None = None

    @property
    def data(self) -> bytes:
        """The body, joined."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


class TensorAssembly:
    """A tensor whose head and payload are put in their places as they arrive."""

    __slots__ = ("_at", "_length", "_metadata", "_payload_at", "_size", "head", "payload", "tail")

    def __init__(self, length: int, most: int) -> None:
        if length > most + _SLACK:
            raise ParlanceError("transfer_too_large", f"a tensor of {length} bytes; {most} are allowed")
        self._length = length
        self._size = most
        self._metadata = -1
        self._payload_at = 0
        self._at = 0
        self.head = bytearray()
        self.payload = bytearray()
        self.tail = bytearray()

    def add(self, piece: bytes) -> None:
        """Put a piece in its place.

        Raises
        ------
        ParlanceError
            As soon as the AVP header has arrived: `truncated`, `trailing_bytes`, `bad_header`, `unknown_version`,
            `metadata_too_large`, `transfer_too_large`.
        """
        view = memoryview(piece)
        if self._metadata < 0 or len(self.head) < AVP_HEAD + self._metadata:
            view = self._add_to_head(view)
        room = self._payload_at - len(self.payload)
        self.payload += view[:room]
        self.tail += view[room:]

    def _add_to_head(self, view: memoryview) -> memoryview:
        if self._metadata < 0:
            missing = AVP_HEAD - len(self.head)
            self.head += view[:missing]
            view = view[missing:]
            if len(self.head) < AVP_HEAD:
                return view
            self._read_header()
        missing = AVP_HEAD + self._metadata - len(self.head)
        self.head += view[:missing]
        return view[missing:]

    def _read_header(self) -> None:
        magic, version, flags, payload, metadata = struct.unpack("<2sBBII", self.head)
        if magic != b"AV" or metadata > payload or flags & 0xF8:
            raise ParlanceError("bad_header", "not the header of an AVP frame")
        if version != 1:
            raise ParlanceError("unknown_version", f"version {version} of AVP")
        if metadata > MAX_AVP_METADATA:
            raise ParlanceError("metadata_too_large", f"AVP metadata of {metadata} bytes")
        rest = self._length - AVP_HEAD - payload
        if rest not in (0, 4):
            code = "truncated" if rest < 0 else "trailing_bytes"
            raise ParlanceError(code, "the body is not as long as its AVP header says")
        if payload - metadata > self._size:
            raise ParlanceError("transfer_too_large", f"a payload of {payload - metadata} bytes")
        self._metadata = metadata
        self._payload_at = payload - metadata

    def finish(self) -> int | None:
        """Return the CRC-32 behind the frame, if there is one.

        Raises
        ------
        ParlanceError
            `truncated`.
        """
        if self._metadata < 0:
            raise ParlanceError("truncated", "a tensor without its header")
        return struct.unpack("<I", self.tail)[0] if len(self.tail) == 4 else None
