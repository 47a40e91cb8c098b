"""Brotli, by whichever of the packages `brotli` and `brotlicffi` is there."""

from __future__ import annotations

import importlib
from typing import Any, Final

from ..core.errors import ParlanceError
from ..core.wire import Buffer
from .expansion import too_large

_QUALITY: Final = 5
_WINDOW: Final = 22
#: So few bytes at a time that one step cannot expand to much more than is allowed.
_STEP: Final = 256


def _load() -> Any:
    for name in ("brotli", "brotlicffi"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


_library: Final = _load()
#: Whether this Python has Brotli.
AVAILABLE: Final[bool] = _library is not None


def encode(content: Buffer) -> bytes:
    """Compress with quality 5 and a window of 22."""
    coded: bytes = _library.compress(bytes(content), quality=_QUALITY, lgwin=_WINDOW)
    return coded


def decode(data: Buffer, most: int) -> bytes:
    """Expand one whole stream to at most `most` bytes (COD-7).

    Raises
    ------
    ParlanceError
        `bad_compression`, `trailing_bytes`, `decompressed_too_large`.
    """
    coded = bytes(data)
    if not coded or coded[0] & 0x7F == 0x11:
        raise ParlanceError("bad_compression", "an empty Brotli stream, or one with a large window")
    decompressor = _library.Decompressor()
    out = bytearray()
    for at in range(0, len(coded), _STEP):
        if decompressor.is_finished():
            raise ParlanceError("trailing_bytes", "bytes after a Brotli stream")
        try:
            out += decompressor.process(coded[at : at + _STEP])
        except _library.error:
            raise _failure(coded, at + _STEP, out) from None
        if len(out) > most:
            raise too_large(most)
    if not decompressor.is_finished():
        raise ParlanceError("bad_compression", "a Brotli stream that is cut off")
    return bytes(out)


def _failure(coded: bytes, end: int, out: bytearray) -> ParlanceError:
    """Tell bytes behind the end, which the library refuses as well, from a damaged stream."""
    decompressor = _library.Decompressor()
    start = max(0, end - _STEP)
    try:
        if start:
            decompressor.process(coded[:start])
        for at in range(start, min(end, len(coded))):
            decompressor.process(coded[at : at + 1])
            if decompressor.is_finished():
                return ParlanceError("trailing_bytes", "bytes after a Brotli stream")
    except _library.error:
        pass
    return ParlanceError("bad_compression", f"a damaged Brotli stream after {len(out)} bytes")
