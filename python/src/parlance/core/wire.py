"""Varints and text as the protocol writes them."""

from __future__ import annotations

from typing import Final

from .errors import ParlanceError

Buffer = bytes | bytearray | memoryview

MAX_SAFE: Final = 2**53 - 1
#: Each byte by itself; those below 128 are varints.
BYTES: Final = tuple(bytes([number]) for number in range(256))


def varint(number: int) -> bytes:
    """Write an unsigned LEB128 in its shortest form (CONV-1)."""
    if number < 128:
        return BYTES[number]
    out = bytearray()
    while number > 127:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: Buffer, at: int, most: int = MAX_SAFE) -> tuple[int, int]:
    """Read a varint (CONV-2).

    Returns
    -------
    number, at : int
        The number, and where the next field begins.

    Raises
    ------
    ParlanceError
        `truncated`, `bad_varint`.
    """
    value = shift = 0
    size = len(data)
    while True:
        if at >= size:
            raise ParlanceError("truncated", "a varint is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 49:
            raise ParlanceError("bad_varint", "a varint of more than 8 bytes")
    if (byte == 0 and shift) or value > most:
        raise ParlanceError("bad_varint", f"a varint is overlong, or above {most}")
    return value, at


def text_of(data: Buffer) -> str:
    """Decode UTF-8 without replacing anything (CONV-4).

    Raises
    ------
    ParlanceError
        `bad_utf8`.
    """
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise ParlanceError("bad_utf8", f"byte {error.start} is not UTF-8") from None


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 units, as the protocol counts characters in JSON."""
    return len(text) + sum(character > "\uffff" for character in text)
