"""Dictionary: eight patterns of chat JSON as one byte each."""

from __future__ import annotations

import re
from typing import Final

from ..core.errors import ParlanceError
from ..core.wire import Buffer
from .expansion import too_large

_PATTERNS: Final = (
    b'{"role":"user","content":"',
    b'{"role":"assistant","content":"',
    b'{"role":"system","content":"',
    b'"}',
    b'"},',
    b'"}]',
    b'{"messages":[',
    b'{"model":"',
)
_BYTES: Final = {pattern: bytes([0x80 + index]) for index, pattern in enumerate(_PATTERNS)}
_ANY: Final = re.compile(b"|".join(re.escape(pattern) for pattern in sorted(_PATTERNS, key=len, reverse=True)))
_CODED: Final = re.compile(rb"[\x80-\xff]")


def encode(content: bytes) -> bytes:
    """Encode ASCII.

    Raises
    ------
    ParlanceError
        `unrepresentable` (COD-8).
    """
    if not content.isascii():
        raise ParlanceError("unrepresentable", "DICTIONARY carries ASCII only")
    return _ANY.sub(lambda found: _BYTES[found[0]], content)


def decode(data: Buffer, most: int) -> bytes:
    """Decode at most `most` bytes.

    Raises
    ------
    ParlanceError
        `bad_compression` (COD-9), `decompressed_too_large`.
    """
    coded = bytes(data)
    size = len(coded)
    for byte, pattern in enumerate(_PATTERNS, 0x80):
        size += coded.count(byte) * (len(pattern) - 1)
    if size > most:
        raise too_large(most)
    return _CODED.sub(_expand, coded)


def _expand(found: re.Match[bytes]) -> bytes:
    index = found[0][0] - 0x80
    if index >= len(_PATTERNS):
        raise ParlanceError("bad_compression", f"the byte {found[0][0]:#x} stands for nothing")
    return _PATTERNS[index]
