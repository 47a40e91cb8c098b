"""TokenNative: text as the token IDs of a vocabulary, each a varint (part 8)."""

from __future__ import annotations

import base64
import codecs
import hashlib
import importlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ..core.errors import ParlanceError
from ..core.wire import Buffer, read_varint, text_of, varint

_MAX_ID: Final = 2**32 - 1
#: Names of `tiktoken` to names of the protocol.
_NAMES: Final = {"cl100k_base": "CL100K_BASE", "o200k_base": "O200K_BASE", "llama_bpe": "LLAMA_BPE"}
#: SHA-256 of the rank file of each encoding.
HASHES: Final = {
    "CL100K_BASE": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "O200K_BASE": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "LLAMA_BPE": "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55",
}


class Vocabulary:
    """A vocabulary of the protocol.

    Parameters
    ----------
    encoding : tiktoken.Encoding
        `tiktoken.get_encoding("o200k_base")`, `cl100k_base`, or one that was built from the files of Llama 3 with the
        name `llama_bpe`.
    """

    def __init__(self, encoding: Any) -> None:
        name = _NAMES.get(str(getattr(encoding, "name", "")).lower())
        if name is None:
            raise ParlanceError(
                "invalid_option",
                f"vocabulary: expected one of {', '.join(_NAMES)}, not {getattr(encoding, 'name', encoding)!r}",
            )
        self.name: str = name
        self._encoding = encoding
        self._special = {encoding.encode_single_token(token) for token in encoding.special_tokens_set}

    @classmethod
    def load(cls, name: str) -> Vocabulary:
        """Load an encoding of `tiktoken` by its name.

        Raises
        ------
        ParlanceError
            `vocabulary_unavailable`.
        """
        try:
            return cls(importlib.import_module("tiktoken").get_encoding(name))
        except ParlanceError:
            raise
        except Exception as error:  # the package is missing, the name is unknown, or its files cannot be fetched
            raise ParlanceError("vocabulary_unavailable", f"vocabulary {name!r}: {error}") from error

    def hash(self) -> str:
        """Return the SHA-256 of the rank file of what was loaded."""
        ranks: dict[bytes, int] = self._encoding._mergeable_ranks
        lines = (
            base64.b64encode(token) + f" {rank}\n".encode()
            for token, rank in sorted(ranks.items(), key=lambda item: item[1])
        )
        return hashlib.sha256(b"".join(lines)).hexdigest()

    def encode(self, text: str) -> list[int]:
        """Return the token IDs of ordinary text (COD-4)."""
        tokens: list[int] = self._encoding.encode_ordinary(text)
        return tokens

    def bytes_of(self, tokens: Iterable[int]) -> bytes:
        """Return the bytes of token IDs.

        Raises
        ------
        ParlanceError
            `bad_token` (COD-5).
        """
        out = bytearray()
        for token in tokens:
            if token in self._special:
                raise ParlanceError("bad_token", f"the special token {token}")
            try:
                out += self._encoding.decode_single_token_bytes(token)
            except (KeyError, OverflowError):
                raise ParlanceError("bad_token", f"the unknown token {token}") from None
        return bytes(out)


def write_tokens(tokens: Sequence[int]) -> bytes:
    """Write token IDs.

    Raises
    ------
    ParlanceError
        `invalid_argument`.
    """
    if any(type(token) is not int or not 0 <= token <= _MAX_ID for token in tokens):
        raise ParlanceError("invalid_argument", "tokens: expected whole numbers of at most 32 bits")
    return b"".join(map(varint, tokens))


def read_tokens(data: Buffer) -> list[int]:
    """Read token IDs.

    Raises
    ------
    ParlanceError
        `truncated`, `bad_varint`.
    """
    tokens = []
    at = 0
    while at < len(data):
        token, at = read_varint(data, at, _MAX_ID)
        tokens.append(token)
    return tokens


def decode(vocabulary: Vocabulary, data: Buffer) -> bytes:
    """Return the UTF-8 of a body, which has to be whole (COD-6)."""
    content = vocabulary.bytes_of(read_tokens(data))
    text_of(content)
    return content


class PartText:
    """The text of parts of token IDs, which may split a character between them."""

    def __init__(self, held: bytes = b"") -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._decoder.decode(held)

    def feed(self, content: bytes, *, is_last: bool = False) -> str:
        """Return the text that is complete with this part.

        Raises
        ------
        ParlanceError
            `bad_utf8`.
        """
        try:
            return self._decoder.decode(content, is_last)
        except UnicodeDecodeError:
            raise ParlanceError("bad_utf8", "token IDs that form no text") from None
