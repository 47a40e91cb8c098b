"""Answering requests of the server and of other agents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .core.errors import ParlanceError, RequestError
from .core.frames import CHUNK, RESPONSE
from .core.maps import pack_metadata
from .core.outbox import Body
from .core.streams import Stream
from .events import events_of
from .http.head import decode_pull
from .http.uploads import uploads_of
from .messages import Message

if TYPE_CHECKING:
    from .endpoint import Endpoint
    from .session import Session

_log: Final = logging.getLogger("parlance")
#: A handler waits while so many bytes of its reply wait to be written.
_MAX_QUEUED: Final = 256 * 1024

#: Errors of calls in a handler that its requester gets (part 14, column "error frame").
_ANSWERS: Final = frozenset(
    {"message_too_large", "transfer_too_large", "over_budget", "unsupported", "unrepresentable", "unknown_agent"}
)

#: The session one of whose requests is being answered: it cannot end before its handlers do.
answering: Final[ContextVar[object]] = ContextVar("answering", default=None)

#: Called with each request. It returns the answer, or yields its parts: text, bytes, or what `json.dumps` takes.
Handler = Callable[[Message, "RequestContext"], Any]


@dataclass(slots=True)
class Tokens:
    """A body of token IDs, which may be yielded or sent if the two ends have agreed on a vocabulary."""

    ids: list[int]

    def __len__(self) -> int:
        return len(self.ids)


class RequestContext:
    """The second argument of a handler, beside its request.

    Attributes
    ----------
    session : Session
    metadata : mapping
        That of the request.
    """

    __slots__ = ("_pending", "metadata", "session")

    def __init__(self, session: Session, metadata: Mapping[str, Any]) -> None:
        self.session = session
        self.metadata = metadata
        self._pending: bytes | None = None

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Send metadata with the next part, or with the whole reply.

        Raises
        ------
        ParlanceError
            `invalid_argument`, `metadata_too_large`.
        """
        self._pending = pack_metadata(metadata, self.session.agreement.max_metadata_size)

    def take_metadata(self) -> bytes | None:
        """Return what the next body has to carry."""
        pending, self._pending = self._pending, None
        return pending


class Handlers:
    """The requests that are being answered, a task for each."""

    def __init__(self, endpoint: Endpoint, handler: Handler | None) -> None:
        self._endpoint = endpoint
        self._handler = handler
        self._tasks: dict[Stream, asyncio.Task[None]] = {}

    def begin(self, stream: Stream, request: Message) -> None:
        """Answer a request."""
        link = self._endpoint.link
        try:
            metadata = request.metadata
        except ParlanceError as error:
            link.fail(stream, error)
            return
        handler, pull = self._handler, decode_pull(metadata)
        if pull is not None:
            handler = self._answer_pull
        elif events_of(self._endpoint.session).answers(metadata):
            handler = self._answer_event
        if handler is None:
            link.fail(stream, ParlanceError("unsupported", "this client answers no requests"))
            return
        context = RequestContext(self._endpoint.session, metadata)
        task = self._tasks[stream] = asyncio.create_task(self._answer(handler, stream, request, context))
        task.add_done_callback(lambda done: self._done(stream, done))

    def _answer_pull(self, request: Message, context: RequestContext) -> AsyncIterable[bytes]:
        """The other end asks for the body of an HTTP request."""
        return uploads_of(self._endpoint.session).answer(decode_pull(context.metadata) or 0, request.sender)

    async def _answer_event(self, request: Message, context: RequestContext) -> bytes:
        """The other end has emitted an event."""
        context.set_metadata({"event": context.metadata["event"]})
        return await events_of(self._endpoint.session).answer(request)

    def cancel(self, stream: Stream) -> None:
        """The requester has given up, or the session is over."""
        task = self._tasks.get(stream)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Stop all of them, and wait until they have stopped."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _done(self, stream: Stream, task: asyncio.Task[None]) -> None:
        """A task that was cancelled owes its answer: the handler may not have been entered, or may have been left."""
        self._tasks.pop(stream, None)
        if not stream.is_answered and not stream.is_over:
            if task.cancelled() and not stream.is_cancelled:
                _log.error("a handler failed: it was cancelled, and not by its requester")
            self._endpoint.fail_stream(stream)

    async def _answer(self, handler: Handler, stream: Stream, request: Message, context: RequestContext) -> None:
        endpoint = self._endpoint
        answering.set(context.session)
        endpoint.consume(stream, request.charge)
        link = endpoint.link
        try:
            result = handler(request, context)
            if isinstance(result, AsyncIterable):
                async for part in result:
                    await self._part(stream, part, context)
                pending = context.take_metadata()
                if pending is not None:
                    link.part(stream, Body(CHUNK, metadata=pending))
                link.end(stream)
            else:
                answer = await result if isinstance(result, Awaitable) else result
                body = endpoint.encode(RESPONSE, b"" if answer is None else answer)
                body.metadata = context.take_metadata()
                link.respond(stream, body)
        except Exception as error:
            # A body that cannot be decoded is a verdict (ERR-5); errors of other calls of the handler are its own.
            is_verdict = isinstance(error, ParlanceError) and (error is request.failure or error.code in _ANSWERS)
            is_told = is_verdict or isinstance(error, RequestError)
            if not is_told:
                _log.exception("a handler failed")
            link.fail(stream, error if is_told else RuntimeError())
        finally:
            endpoint.wake()

    async def _part(self, stream: Stream, part: object, context: RequestContext) -> None:
        endpoint = self._endpoint
        body = endpoint.encode(CHUNK, part)
        body.metadata = context.take_metadata()
        if body.metadata is not None and not body.length:
            # An empty part with metadata would be none (part 4, Metadata).
            endpoint.link.part(stream, Body(CHUNK, metadata=body.metadata))
            body.metadata = None
        endpoint.link.part(stream, body)
        endpoint.wake()
        while sum(waiting.length for waiting in stream.queue) > _MAX_QUEUED and not stream.is_over:
            await endpoint.drained()
