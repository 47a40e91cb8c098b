"""Messages as applications read them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from .codecs import json_text
from .codecs.token_native import PartText, read_tokens, write_tokens
from .core import frames
from .core.errors import ParlanceError
from .core.events import ReceivedBody
from .core.frames import ALGORITHM_OF, CONTEXT
from .core.maps import metadata_of
from .core.wire import text_of

if TYPE_CHECKING:
    from .codecs.coder import Coder
    from .tensors import Tensor

#: `Message.bytes` hides the name of the type.
_Bytes = bytes
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_SHOWN: Final = 60


class Message:
    """A one-way message, a request, a reply or a part of one.

    Its content is decoded when it is asked for, so each of `bytes`, `text`, `json()` and `tokens` may raise an error of
    decoding.

    Attributes
    ----------
    sender : str or None
        The agent that has sent it, by its ID or address; `None` for the server itself.
    tensor : Tensor or None
        The tensor, if it is one.
    compressed_alone : bool
        Whether its sender has kept it out of context coding.
    """

    __slots__ = (
        "_body",
        "_coder",
        "_content",
        "_metadata",
        "_part_text",
        "_text",
        "compressed_alone",
        "failure",
        "sender",
        "tensor",
    )

    def __init__(
        self,
        body: ReceivedBody,
        coder: Coder,
        *,
        part_text: PartText | None = None,
        tensor: Tensor | None = None,
    ) -> None:
        self._body = body
        self._coder = coder
        self._content: _Bytes | None = body.content
        self._part_text = part_text
        self._text: str | None = None
        self._metadata: Mapping[str, Any] | None = None
        self.sender = body.sender
        self.compressed_alone = body.secret
        self.tensor = tensor
        #: The error of decoding that was raised last.
        self.failure: ParlanceError | None = None
        if part_text is not None:
            # Parts are read in order, and a character may begin in one and end in the next.
            self._text = part_text.feed(self._split_bytes())

    def _split_bytes(self) -> _Bytes:
        self._content = self._coder.vocabulary.bytes_of(read_tokens(self._body.data))
        return self._content

    @property
    def bytes(self) -> _Bytes:
        """The content."""
        if self._content is None:
            try:
                self._content = self._coder.decode(self._body)
            except ParlanceError as error:
                self.failure = error
                raise
        return self._content

    @property
    def text(self) -> str:
        """The content as text."""
        if self._text is None:
            content = self.bytes
            try:
                self._text = text_of(content)
            except ParlanceError as error:
                self.failure = error
                raise
        return self._text

    def json(self) -> Any:
        """Return the content as the value of its JSON, which is not checked."""
        text = self.text
        try:
            return json_text.parse(text)
        except ParlanceError as error:
            self.failure = error
            raise

    @property
    def tokens(self) -> list[int] | None:
        """The token IDs, if it came as such."""
        return read_tokens(self._body.data) if self._body.codec == frames.TOKEN_NATIVE else None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata; an empty map if there are none."""
        if self._metadata is None:
            try:
                self._metadata = MappingProxyType(metadata_of(self._body.metadata)) if self._body.metadata else NOTHING
            except ParlanceError as error:
                self.failure = error
                raise
        return self._metadata

    @property
    def is_redelivered(self) -> bool:
        """Whether the message of an agent may have been delivered before (AGT-15)."""
        return self.sender is not None and self.metadata.get("@redelivered") is True

    @property
    def algorithm(self) -> str:
        """The codec in which it came."""
        codec = self._body.codec
        return "CONTEXT" if codec == CONTEXT else ALGORITHM_OF.get(codec, "AVP")

    @property
    def charge(self) -> int:
        """Credit that its sender gets back when it was read."""
        return self._body.charge

    def __repr__(self) -> str:
        if self.tensor is not None:
            return f"<Message {self.tensor!r}>"
        try:
            text = self.text
            shown = repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
        except ParlanceError:
            shown = f"{len(self._body.data)} bytes"
        sender = f" from {self.sender}" if self.sender else ""
        return f"<Message {shown}{sender}, {self.algorithm}>"


def join(parts: list[Message], coder: Coder, metadata: bytes | None) -> Message:
    """Return one message of all parts: token IDs if all are.

    Raises
    ------
    ParlanceError
        An error of decoding.
    """
    if len(parts) == 1 and metadata is None:
        return parts[0]
    tokens = [part.tokens for part in parts]
    codec = frames.TOKEN_NATIVE if parts and None not in tokens else frames.PLAIN
    if codec == frames.TOKEN_NATIVE:
        data = b"".join(write_tokens(part or []) for part in tokens)
    else:
        data = b"".join(part.bytes for part in parts)
    content = data if codec == frames.PLAIN else None
    secret = any(part.compressed_alone for part in parts)
    return Message(ReceivedBody(codec, data, content, None, metadata, secret, None, 0), coder)
