"""Zstandard from the standard library (Python 3.14) or from the package `zstandard`, with bounds."""

from __future__ import annotations

import importlib
from typing import Any, Final

from .errors import ParlanceError

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_MAX_WINDOW: Final = 128 * 1024 * 1024
#: So few bytes at a time that one step cannot expand to much more than is allowed.
_STEP: Final = 256
#: A base of fewer bytes is not used as a dictionary.
MIN_DICTIONARY: Final = 8


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_standard: Final = _module("compression.zstd")
_package: Final[Any] = None if _standard is not None else _module("zstandard")

#: Whether this Python has Zstandard.
AVAILABLE: Final[bool] = _standard is not None or _package is not None


def dictionary_of(base: bytes) -> Any:
    """Return a dictionary of raw content, or `None` for a base that is too short to be one."""
    if len(base) < MIN_DICTIONARY:
        return None
    if _standard is not None:
        return _standard.ZstdDict(base, is_raw=True)
    return _package.ZstdCompressionDict(base, dict_type=_package.DICT_TYPE_RAWCONTENT)


def compress(data: bytes, dictionary: Any = None, level: int = 3) -> bytes:
    """Compress into one frame."""
    if _standard is not None:
        options = {_standard.CompressionParameter.compression_level: level}
        packed: bytes = _standard.compress(
            data, options=options, zstd_dict=None if dictionary is None else dictionary.as_prefix
        )
        return packed
    compressor = _package.ZstdCompressor(level=level, dict_data=dictionary, write_dict_id=False)
    written: bytes = compressor.compress(data)
    return written


def decompress(data: bytes, most: int, dictionary: Any = None) -> bytes:
    """Expand exactly one frame (CTX-4).

    Parameters
    ----------
    most : int
        The bytes that it may expand to.

    Raises
    ------
    ParlanceError
        `bad_compression`, `decompressed_too_large`.
    """
    _check_header(data, most)
    out = bytearray()
    decompressor = _decompressor(dictionary)
    try:
        for at in range(0, len(data), _STEP):
            if decompressor.eof:
                raise ParlanceError("bad_compression", "bytes after a zstd frame")
            out += decompressor.decompress(data[at : at + _STEP])
            if len(out) > most:
                raise ParlanceError("decompressed_too_large", f"expands to more than {most} bytes")
    except ParlanceError:
        raise
    except Exception as error:  # each library has an exception of its own
        raise ParlanceError("bad_compression", f"zstd: {error}") from None
    if not decompressor.eof or decompressor.unused_data:
        raise ParlanceError("bad_compression", "not exactly one zstd frame")
    return bytes(out)


def _decompressor(dictionary: Any) -> Any:
    if _standard is not None:
        options = {_standard.DecompressionParameter.window_log_max: _MAX_WINDOW.bit_length() - 1}
        prefix = None if dictionary is None else dictionary.as_prefix
        return _standard.ZstdDecompressor(zstd_dict=prefix, options=options)
    return _package.ZstdDecompressor(dict_data=dictionary, max_window_size=_MAX_WINDOW).decompressobj()


def _check_header(data: bytes, most: int) -> None:
    """Check what the head of a frame says before memory is spent on it."""
    if len(data) < 6 or data[:4] != _MAGIC:
        raise ParlanceError("bad_compression", "not a zstd frame")
    descriptor = data[4]
    at = 5
    is_single = bool(descriptor & 0x20)
    window = 0
    if not is_single:
        exponent, mantissa = data[at] >> 3, data[at] & 7
        window = (1 << (10 + exponent)) * (8 + mantissa) // 8
        at += 1
    id_size = (0, 1, 2, 4)[descriptor & 3]
    identifier = int.from_bytes(data[at : at + id_size], "little")
    at += id_size
    size_bytes = ((1 if is_single else 0), 2, 4, 8)[descriptor >> 6]
    stated = data[at : at + size_bytes]
    if len(stated) < size_bytes or identifier:
        raise ParlanceError("bad_compression", "a zstd frame that is cut off, or that names a dictionary")
    if size_bytes:
        size = int.from_bytes(stated, "little") + (256 if size_bytes == 2 else 0)
        if is_single:
            window = size
        if size > most:
            raise ParlanceError("decompressed_too_large", f"states {size} bytes, above {most}")
    if window > _MAX_WINDOW:
        raise ParlanceError("bad_compression", "a zstd window of more than 128 MiB")
