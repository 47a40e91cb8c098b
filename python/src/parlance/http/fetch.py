"""`session.fetch`: HTTP requests that the other end of a session answers."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from ..core.errors import ParlanceError
from .events import in_stream, is_event_stream
from .head import (
    METHODS,
    WITHOUT_BODY,
    Headers,
    decode_response,
    encode_request,
    headers_to_send,
    join_headers,
    path_of,
)
from .uploads import Upload, uploads_of

if TYPE_CHECKING:
    from ..messages import Message
    from ..reply import Reply
    from ..verbs import Verbs as Session

REPLY: Final = "x-parlance-reply"
FOLLOW: Final = "x-parlance-follow"
AFTER: Final = "x-parlance-after"
_NO_CONTENT: Final = 204
_BYTES: Final = "application/octet-stream"
_TEXT: Final = "text/plain;charset=UTF-8"


class HttpResponse:
    """A response: iterate over its body, or read it at once. Leaving `async with` stops what was not read.

    Attributes
    ----------
    status : int
    headers : dict of str
        Names in lower case.
    """

    def __init__(self, status: int, headers: Headers, parts: Parts | None, first: Message | None = None) -> None:
        self.status = status
        self.headers = headers
        self._parts = parts
        self._first = first

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while (chunk := await self.next()) is not None:
                yield chunk
        finally:
            await self.aclose()

    async def next(self) -> bytes | None:
        """Return the next piece of the body; `None` at its end.

        Raises
        ------
        ParlanceError
            The other end has failed, or the session.
        """
        while self._parts is not None:
            part, self._first = self._first or await self._parts.next(), None
            if part is None:
                self._parts = None
                break
            try:
                content = part.bytes
            except ParlanceError:
                await self.aclose()
                raise
            chunk = (
                in_stream(content) if is_event_stream(self.status, self.headers.get("content-type", "")) else content
            )
            if chunk:
                return chunk
        return None

    async def read(self) -> bytes:
        """Return the body, or the rest of it."""
        return b"".join([chunk async for chunk in self])

    async def text(self) -> str:
        """Return the body as text."""
        return (await self.read()).decode(errors="replace")

    async def json(self) -> Any:
        """Return the value of the body, which is JSON."""
        return json.loads(await self.read())

    async def aclose(self) -> None:
        """Stop the answer, unless it was read to its end."""
        parts, self._parts, self._first = self._parts, None, None
        if parts is not None:
            await parts.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<HttpResponse {self.status}>"


class Parts:
    """The parts of a reply, and the body of its request if that is streamed."""

    def __init__(self, session: Session, reply: Reply, upload: Upload | None = None, number: int = 0) -> None:
        self.reply = reply
        self._session = session
        self._upload = upload
        self._number = number
        self._iterator = aiter(reply)
        if upload is not None:
            upload.on_failed = reply.cancel

    async def next(self) -> Message | None:
        """Return the next part; `None` at the end."""
        try:
            part = await anext(self._iterator, None)
        except BaseException:
            await self.aclose()
            raise
        if part is None:
            await self.aclose()
            if self._upload is not None and self._upload.error is not None:
                raise self._upload.error
        return part

    async def aclose(self) -> None:
        """Cancel the request, unless its reply is complete."""
        self.reply.cancel()
        if self._upload is not None:
            await uploads_of(self._session).withdraw(self._number)


async def fetch(
    session: Session,
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: str | bytes | AsyncIterable[bytes] = b"",
    size: int | None = None,
) -> HttpResponse:
    """Do what `Session.fetch` says.

    Parameters
    ----------
    size : int, optional
        Bytes of a body that is streamed, if they are known.
    """
    sent = join_headers((headers or {}).items())
    followed = sent.get(FOLLOW)
    after = 0
    if followed is not None:
        after = _number(sent.get(AFTER, "0"))
        # The part before tells the head at once, also if the next part is yet to be written.
        parts = Parts(session, session.follow(followed, after=max(0, after - 1)))
    else:
        parts = _ask(session, method.upper(), path_of(url), sent, body, size)
    try:
        first = await parts.next()
    except ParlanceError as error:
        if followed is not None and error.code == "unknown_reply":
            return HttpResponse(_NO_CONTENT, {}, None)
        raise
    try:
        return await _response(parts, first, after, has_body=method.upper() != "HEAD")
    except ParlanceError:
        await parts.aclose()
        raise


async def _response(parts: Parts, first: Message | None, after: int, *, has_body: bool) -> HttpResponse:
    reply = parts.reply
    head = decode_response(reply.metadata)
    if head is None:
        why = "the other end answered without an HTTP status; it needs onFetch, or an onRequest such as the gateway"
        raise ParlanceError("unsupported", why)
    status, received = head
    # A part without content is not an event, so a reader of the body cannot count it.
    unread = first if after == 0 and first is not None and first.bytes else None
    if reply.kept_id is not None:
        received |= {REPLY: reply.kept_id, AFTER: str(max(after, reply.position - (unread is not None)))}
    if not has_body or status in WITHOUT_BODY:
        await parts.aclose()
        return HttpResponse(status, received, None)
    return HttpResponse(status, received, parts, unread)


def _ask(
    session: Session,
    method: str,
    path: str,
    headers: Headers,
    body: str | bytes | AsyncIterable[bytes],
    size: int | None,
) -> Parts:
    if method not in METHODS:
        supported = ", ".join(METHODS)
        raise ParlanceError("unsupported", f"session.fetch does not support the method {method[:20]}, but {supported}")
    if isinstance(body, AsyncIterable):
        kind, content, pieces = _BYTES, None, body
    else:
        kind, content = (_TEXT, body.encode()) if isinstance(body, str) else (_BYTES, bytes(body))
        if not content:
            return Parts(session, session.stream(b"", metadata=encode_request(method, path, headers_to_send(headers))))
        pieces, size = _once(content), len(content)
    if method in ("GET", "HEAD"):
        raise ParlanceError("invalid_argument", f"a {method} request cannot have a body")
    sent = headers_to_send({**headers, "content-type": headers.get("content-type", kind)})
    if content is not None and len(content) <= session.agreement.max_message_size:
        return Parts(session, session.stream(content, metadata=encode_request(method, path, sent)))
    if size is not None:
        # The other end may refuse a body before it asks for it.
        sent["content-length"] = str(size)
    uploads, upload = uploads_of(session), Upload(pieces)
    number = uploads.offer(upload)
    return Parts(session, session.stream(b"", metadata=encode_request(method, path, sent, number)), upload, number)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _number(text: str) -> int:
    if re.fullmatch(r"\d{1,15}", text, re.ASCII):
        return int(text)
    raise ParlanceError("invalid_argument", f"{AFTER}: expected a number of parts")
