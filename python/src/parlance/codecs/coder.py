"""Which codec a body takes, and what a received body decodes to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from ..core import frames
from ..core.agreement import Agreement, normalized
from ..core.errors import ParlanceError
from ..core.events import ReceivedBody
from ..core.frames import ALGORITHM_OF, CODEC_OF, CONTEXT, PLAIN
from ..core.outbox import Body
from ..core.wire import text_of
from . import brotli, dictionary, m2m, t1, token_native
from .expansion import bound_of, check_length
from .token_native import Vocabulary

#: Shorter bodies are not compressed: the head of what is compressed takes as much as it saves.
_MIN_COMPRESSED: Final = 64
_NAMES: Final = {normalized(name): codec for name, codec in CODEC_OF.items()}


@dataclass(slots=True)
class Content:
    """The content that an application sends, as bytes that it cannot change any more."""

    data: bytes
    is_text: bool

    def __len__(self) -> int:
        return len(self.data)


#: `json.dumps` with options makes an encoder for each value.
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def available() -> tuple[str, ...]:
    """Return the algorithms that this Python can offer without a vocabulary, in order of preference."""
    with_brotli = ("M2M", "BROTLI") if brotli.AVAILABLE else ()
    return (*with_brotli, "TOKEN", "DICTIONARY", "NONE")


def content_of(body: object) -> Content:
    """Return the bytes of what an application sends; a buffer is copied.

    Raises
    ------
    ParlanceError
        `invalid_argument`, `lone_surrogate`.
    """
    if isinstance(body, Content):
        return body
    if isinstance(body, bytes | bytearray | memoryview):
        return Content(bytes(body), is_text=False)
    try:
        text = body if isinstance(body, str) else _ENCODER.encode(body)
        return Content(text.encode(), is_text=True)
    except UnicodeEncodeError:
        raise ParlanceError("lone_surrogate", "a text has half a surrogate pair") from None
    except (TypeError, ValueError, RecursionError) as error:
        expected = "a body is a str, bytes, or what json.dumps takes; send_tensor takes arrays"
        raise ParlanceError("invalid_argument", f"{expected}: {error}") from None


class Coder:
    """Codes and decodes the bodies of one session.

    Parameters
    ----------
    agreement : Agreement
    vocabulary : Vocabulary, optional
        That of the encoding that was agreed on.
    key : m2m.Key, optional
        Protects every body.
    """

    def __init__(self, agreement: Agreement, vocabulary: Vocabulary | None = None, key: m2m.Key | None = None) -> None:
        self._algorithms = agreement.algorithms
        self._max_sent = agreement.max_message_size
        self._max_received = agreement.max_received_size
        self._vocabulary = vocabulary
        self._key = key
        self._has_context = agreement.context is not None

    def encode(self, kind: int, body: object, *, algorithm: str | None = None, secret: bool = False) -> Body:
        """Code a body.

        Raises
        ------
        ParlanceError
            `invalid_argument`, `unsupported`, `unrepresentable`, `message_too_large`.
        """
        given = content_of(body)
        content, is_text = given.data, given.is_text
        if len(content) > self._max_sent:
            raise ParlanceError("message_too_large", f"{len(content)} bytes; the server takes {self._max_sent}")
        if self._key is not None:
            coded = m2m.encode(content, key=self._key)
            return Body(kind, coded, frames.M2M, len(content), secret=secret)
        if algorithm is None or algorithm == "auto":
            return self._choose(kind, content, is_text, secret)
        codec = _NAMES.get(normalized(algorithm))
        if codec is None:
            raise ParlanceError("invalid_argument", f"unknown algorithm {algorithm!r}")
        if codec == CONTEXT:
            if not self._has_context or secret:
                raise ParlanceError("unsupported", "CONTEXT was not agreed on, or the body is secret")
            return self._choose(kind, content, is_text, secret)
        if ALGORITHM_OF[codec] not in self._algorithms and (content or codec != PLAIN):
            raise ParlanceError("unsupported", f"{ALGORITHM_OF[codec]} was not agreed on")
        return self._coded(kind, codec, content, secret)

    def encode_tokens(self, kind: int, tokens: list[int], *, secret: bool = False) -> Body:
        """Send token IDs as they are.

        Raises
        ------
        ParlanceError
            `unsupported` if TOKEN_NATIVE was not agreed on, `invalid_argument`.
        """
        if "TOKEN_NATIVE" not in self._algorithms:
            raise ParlanceError("unsupported", "TOKEN_NATIVE was not agreed on")
        return Body(kind, token_native.write_tokens(tokens), frames.TOKEN_NATIVE, secret=secret)

    def _choose(self, kind: int, content: bytes, is_text: bool, secret: bool) -> Body:
        """Take the smallest of what is cheap to try; coding in context comes when the body is written."""
        best: Body | None = None
        if "NONE" in self._algorithms or not content:
            best = Body(kind, content, secret=secret)
        if len(content) >= _MIN_COMPRESSED and not self._has_context:
            best = self._smaller(best, kind, "BROTLI", content, secret)
        if is_text and self._vocabulary is not None and len(content) < _MIN_COMPRESSED:
            best = self._smaller(best, kind, "TOKEN_NATIVE", content, secret)
        for name in self._algorithms if best is None else ():
            best = self._smaller(best, kind, name, content, secret)
        if best is None:
            raise ParlanceError("unrepresentable", "no algorithm that was agreed on carries this content")
        if self._has_context and not secret:
            best.content = content
        return best

    def _smaller(self, best: Body | None, kind: int, algorithm: str, content: bytes, secret: bool) -> Body | None:
        if algorithm not in self._algorithms:
            return best
        try:
            other = self._coded(kind, CODEC_OF[algorithm], content, secret)
        except ParlanceError:
            return best
        return other if best is None or other.length + 2 < best.length else best

    def _coded(self, kind: int, codec: int, content: bytes, secret: bool) -> Body:
        expanded: int | None = len(content)
        match codec:
            case frames.PLAIN:
                data, expanded = content, None
            case frames.BROTLI:
                data = brotli.encode(content)
            case frames.DICTIONARY:
                data = dictionary.encode(content)
            case frames.M2M:
                data = m2m.encode(content)
            case frames.TOKEN:
                data, expanded = t1.encode(content)
            case _:
                if self._vocabulary is None:
                    raise ParlanceError("vocabulary_not_loaded", "the vocabulary is not there")
                data = token_native.write_tokens(self._vocabulary.encode(text_of(content)))
                expanded = None
        if expanded is not None and expanded > bound_of(len(data)):
            raise ParlanceError("unrepresentable", "the content shrinks further than a receiver expands it")
        return Body(kind, data, codec, expanded, secret=secret)

    def decode(self, body: ReceivedBody) -> bytes:
        """Decode a received body.

        Raises
        ------
        ParlanceError
            An error of decoding (part 14).
        """
        if body.content is not None:
            return body.content
        data, expanded = body.data, body.expanded or 0
        if self._key is not None:
            return check_length(m2m.decode(data, expanded, key=self._key), expanded)
        if body.codec == PLAIN:
            return data
        most = min(self._max_received, bound_of(len(data)))
        if expanded > most:
            raise ParlanceError("decompressed_too_large", f"a body states {expanded} bytes")
        match body.codec:
            case frames.BROTLI:
                return check_length(brotli.decode(data, expanded), expanded)
            case frames.DICTIONARY:
                return check_length(dictionary.decode(data, expanded), expanded)
            case frames.M2M:
                return check_length(m2m.decode(data, expanded), expanded)
            case frames.TOKEN:
                return t1.decode(data, expanded + t1.SLACK)
            case _:
                return token_native.decode(self.vocabulary, data)

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the session.

        Raises
        ------
        ParlanceError
            `vocabulary_not_loaded`.
        """
        if self._vocabulary is None:
            raise ParlanceError("vocabulary_not_loaded", "the vocabulary is not there")
        return self._vocabulary
