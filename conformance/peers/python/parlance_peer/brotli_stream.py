"""Brotli streams (§8, Brotli)."""

from __future__ import annotations

import brotli

from .errors import ProtocolError

def compress(content: bytes) -> bytes:
    return bytes(brotli.compress(content, quality=5, lgwin=22))


def decompress(coded: bytes, most: int) -> bytes:
    """One whole stream (COD-7), of at most `most` bytes.

    Byte by byte: so a bomb is noticed before it fills the memory (COD-3), and so is the end of the stream.
    """
    decompressor = brotli.Decompressor()
    content = bytearray()
    try:
        for offset in range(len(coded)):
            if decompressor.is_finished():
                raise ProtocolError("trailing_bytes", "bytes after the end of a Brotli stream")
            content += decompressor.process(coded[offset : offset + 1])
            if len(content) > most:
                raise ProtocolError("decompressed_too_large", "a Brotli stream is longer than stated")
    except brotli.error as error:
        raise ProtocolError("bad_compression", str(error)) from error
    if not decompressor.is_finished():
        raise ProtocolError("bad_compression", "a Brotli stream is cut off")
    return bytes(content)
