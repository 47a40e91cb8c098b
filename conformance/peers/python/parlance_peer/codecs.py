"""Bodies of the codecs NONE, BROTLI, DICTIONARY and M2M (§8, annex A)."""

from __future__ import annotations

from . import m2m
from .brotli_stream import compress, decompress
from .errors import ProtocolError
from .expansion import largest_expansion
from .frames import MAX_MESSAGE, Codec

_PATTERNS = [
    b'{"role":"user","content":"',
    b'{"role":"assistant","content":"',
    b'{"role":"system","content":"',
    b'"}',
    b'"},',
    b'"}]',
    b'{"messages":[',
    b'{"model":"',
]
_LONGEST_FIRST = sorted(enumerate(_PATTERNS), key=lambda pair: -len(pair[1]))


def encode(content: bytes, codec: Codec) -> bytes | None:
    """The coded body, or None if this codec cannot carry the content."""
    if codec == Codec.BROTLI:
        coded = compress(content)
        return coded if len(content) <= largest_expansion(len(coded)) else None
    if codec == Codec.DICTIONARY:
        return _to_dictionary(content) if max(content, default=0) < 0x80 else None
    if codec == Codec.M2M:
        return m2m.encode(content)
    return content if codec == Codec.NONE else None


def decode(coded: bytes, codec: Codec, expanded: int | None) -> bytes:
    """The content, byte for byte. `expanded` is what the first frame has stated."""
    if codec in (Codec.NONE, Codec.AVP):
        return coded
    if expanded is None or expanded > min(largest_expansion(len(coded)), MAX_MESSAGE):
        raise ProtocolError("decompressed_too_large", f"{len(coded)} bytes state {expanded} bytes of content")
    if codec == Codec.BROTLI:
        content = decompress(coded, expanded)
    elif codec == Codec.DICTIONARY:
        content = _from_dictionary(coded, expanded)
    elif codec == Codec.M2M:
        content = m2m.decode(coded, expanded)
    else:
        raise ProtocolError("unsupported", f"{codec.name} cannot be decoded here")
    if len(content) != expanded:
        raise ProtocolError("bad_frame", f"a body states {expanded} bytes and holds {len(content)}")
    return content


def _to_dictionary(content: bytes) -> bytes:
    out = bytearray()
    offset = 0
    while offset < len(content):
        for index, pattern in _LONGEST_FIRST:
            if content.startswith(pattern, offset):
                out.append(0x80 + index)
                offset += len(pattern)
                break
        else:
            out.append(content[offset])
            offset += 1
    return bytes(out)


def _from_dictionary(coded: bytes, most: int) -> bytes:
    out = bytearray()
    for byte in coded:
        if byte >= 0x88:
            raise ProtocolError("bad_compression", f"0x{byte:02x} is not a pattern")
        out += _PATTERNS[byte - 0x80] if byte >= 0x80 else bytes([byte])
        if len(out) > most:
            raise ProtocolError("decompressed_too_large", "patterns expand further than stated")
    return bytes(out)
