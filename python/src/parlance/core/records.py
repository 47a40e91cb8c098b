"""Frames in a body of HTTP (part 18, Records)."""

from __future__ import annotations

from typing import Final

from .errors import ParlanceError
from .wire import read_varint, varint

#: The bytes of the longest length.
_MAX_LENGTH: Final = 5
_CLOSE_HEAD: Final = 4


def encode_record(frame: bytes) -> bytes:
    """Write one frame as a record."""
    return varint(len(frame)) + frame


def encode_close(code: int, reason: str) -> bytes:
    """Write a record that closes the connection, with a reason of at most 123 bytes."""
    text = reason.encode()
    return b"\0" + code.to_bytes(2, "little") + bytes([len(text)]) + text


class RecordReader:
    """Cuts what arrives into records.

    Parameters
    ----------
    most : int
        The bytes of the longest frame; a longer one is refused by its length alone.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = bytearray()
        #: The close code and the reason, once they have arrived.
        self.closed: tuple[int, str] | None = None

    def receive(self, data: bytes) -> list[bytes]:
        """Take bytes, and return the frames that are complete; nothing follows a close.

        Raises
        ------
        ParlanceError
            `bad_frame`, `message_too_large`.
        """
        held = self._held
        held += data
        frames: list[bytes] = []
        at = 0
        while at < len(held) and self.closed is None:
            try:
                length, start = read_varint(held, at)
            except ParlanceError as error:
                if error.code == "truncated" and len(held) - at < _MAX_LENGTH:
                    break
                raise ParlanceError("bad_frame", "the length of a record is not a varint of 5 bytes") from error
            if length > self._most:
                raise ParlanceError("message_too_large", f"a frame of {length} bytes")
            end = start + length if length else self._read_close(at)
            if end is None or end > len(held):
                break
            if length:
                frames.append(bytes(memoryview(held)[start:end]))
            at = end
        del held[:at]
        return frames

    def _read_close(self, at: int) -> int | None:
        held, start = self._held, at + _CLOSE_HEAD
        if start > len(held) or start + held[start - 1] > len(held):
            return None
        code, end = int.from_bytes(held[at + 1 : at + 3], "little"), start + held[start - 1]
        if code:
            self.closed = code, held[start:end].decode(errors="replace")
        return end
