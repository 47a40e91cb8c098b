"""M2M v1: a message behind a header that a router can read (annex A), and its protection."""

from __future__ import annotations

import hashlib
import hmac
import importlib
import os
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Final

from ..core.errors import ParlanceError
from ..core.wire import Buffer, text_of
from . import brotli, json_text
from .m2m_header import COMPRESSED, FIXED, Header, read_header, routing_of

_NONE: Final = 0
_HMAC: Final = 1
_AEAD: Final = 2
_TAG: Final = 32
_NONCE: Final = 12
_SEAL: Final = 16
_CUSTOM: Final = 0xFE
#: Texts of at least this many bytes are compressed.
_MIN_COMPRESSED: Final = 100


@dataclass(frozen=True, slots=True)
class Key:
    """A key that both ends share: it protects every body of a session.

    Parameters
    ----------
    mode : {'hmac', 'aead'}
        HMAC-SHA256 with 16 bytes or more, or ChaCha20-Poly1305 with 32 bytes, for which `parlance-client[crypto]`
        is needed.
    secret : bytes
    """

    mode: str
    secret: bytes

    def __post_init__(self) -> None:
        if self.mode not in ("hmac", "aead"):
            raise ParlanceError("invalid_option", f"security: expected 'hmac' or 'aead', not {self.mode!r}")
        if len(self.secret) < 16 or (self.mode == "aead" and len(self.secret) != 32):
            raise ParlanceError("invalid_key", "security: HMAC takes 16 bytes or more, AEAD takes 32")

    def __repr__(self) -> str:
        return f"Key(mode={self.mode!r})"

    @property
    def byte(self) -> int:
        """The mode as it stands in the header."""
        return _HMAC if self.mode == "hmac" else _AEAD


def _cipher(key: Key) -> Any:
    try:
        module = importlib.import_module("cryptography.hazmat.primitives.ciphers.aead")
    except ImportError:
        raise ParlanceError("unsupported", "AEAD needs: pip install 'parlance-client[crypto]'") from None
    return module.ChaCha20Poly1305(key.secret)


def encode(content: bytes, *, key: Key | None = None) -> bytes:
    """Write the body of a frame: JSON under the schema that follows from it, any other text as `custom`.

    Raises
    ------
    ParlanceError
        `unrepresentable` if the content is not text.
    """
    try:
        text = text_of(content)
    except ParlanceError:
        raise ParlanceError("unrepresentable", "M2M carries text only") from None
    try:
        schema, flags, routing = routing_of(json_text.parse(text))
    except ParlanceError:
        schema, flags, routing = _CUSTOM, 0, b""
    payload = content
    if len(content) >= _MIN_COMPRESSED and brotli.AVAILABLE:
        payload = brotli.encode(content)
        flags |= COMPRESSED
        if len(payload) >= len(content):
            payload, flags = content, flags & ~COMPRESSED
    mode = _NONE if key is None else key.byte
    header = struct.pack("<HBBI12x", FIXED + len(routing), schema, mode, flags) + routing
    tail = struct.pack("<II", len(payload), zlib.crc32(content)) + payload
    if key is None:
        return header + tail
    if key.byte == _HMAC:
        return header + tail + hmac.digest(key.secret, header + tail, hashlib.sha256)
    nonce = os.urandom(_NONCE)
    sealed: bytes = _cipher(key).encrypt(nonce, tail, header)
    return header + nonce + sealed


def decode(data: Buffer, most: int, *, key: Key | None = None) -> bytes:
    """Read the body of a frame and return its text, of at most `most` bytes.

    Raises
    ------
    ParlanceError
        An error of decoding; `security_required` and `authentication_failed` of protection.
    """
    return read(bytes(data), most, key=key)[1]


def read(data: bytes, most: int, *, key: Key | None = None) -> tuple[Header, bytes]:
    """Read the header and the text of the body of a frame."""
    if len(data) < FIXED:
        raise ParlanceError("truncated", "an M2M frame without its header")
    length, mode = int.from_bytes(data[:2], "little"), data[3]
    if mode > _AEAD:
        raise ParlanceError("unknown_security_mode", f"mode {mode}")
    if mode != (_NONE if key is None else key.byte):
        raise ParlanceError("security_required", "a body without the protection that was agreed on")
    if length < FIXED:
        raise ParlanceError("bad_header", "an M2M header of fewer bytes than it has")
    if length > len(data):
        raise ParlanceError("truncated", "an M2M header that is cut off")
    tail = data[length:] if key is None else _opened(data, length, key)
    header = read_header(data[:length])
    if len(tail) < 8:
        raise ParlanceError("truncated", "an M2M frame without its payload")
    size, crc = struct.unpack_from("<II", tail)
    payload = tail[8:]
    if size != len(payload):
        raise ParlanceError("truncated" if size > len(payload) else "trailing_bytes", "the length of the payload")
    if header.flags & COMPRESSED:
        if not brotli.AVAILABLE:
            raise ParlanceError("codec_not_loaded", "this body needs: pip install 'parlance-client[brotli]'")
        payload = brotli.decode(payload, most)
    elif len(payload) > most:
        raise ParlanceError("decompressed_too_large", f"more than {most} bytes")
    if zlib.crc32(payload) != crc:
        raise ParlanceError("bad_checksum", "the CRC does not fit the text")
    text_of(payload)
    return header, payload


def _opened(data: bytes, length: int, key: Key) -> bytes:
    """Check the protection before anything behind the fixed header is believed (M2M-7)."""
    failed = ParlanceError("authentication_failed", "a body that is not authentic under the key")
    if key.byte == _HMAC:
        if len(data) < length + _TAG:
            raise failed
        body, tag = data[:-_TAG], data[-_TAG:]
        if not hmac.compare_digest(hmac.digest(key.secret, body, hashlib.sha256), tag):
            raise failed
        return body[length:]
    if len(data) < length + _NONCE + _SEAL:
        raise failed
    nonce, sealed = data[length : length + _NONCE], data[length + _NONCE :]
    try:
        opened: bytes = _cipher(key).decrypt(nonce, sealed, data[:length])
    except ParlanceError:
        raise
    except Exception:  # InvalidTag, of a package that may not be there
        raise failed from None
    return opened
