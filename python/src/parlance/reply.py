"""The reply to a request, part by part."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from .codecs.token_native import PartText
from .core import frames
from .core.errors import ParlanceError
from .core.events import ReceivedBody
from .core.maps import metadata_of
from .core.streams import Stream
from .inbox import Inbox
from .messages import NOTHING, Message, join

if TYPE_CHECKING:
    from .endpoint import Endpoint

_KEPT: Final = "@reply"


class Reply:
    """The reply of a request that was sent: iterate over its parts once.

    Leaving the loop cancels the request at the other end, and so does leaving `async with`. An iterator that is itself
    in a variable lives on after `break`; there, `async with session.stream(…) as reply` is the sure way.
    """

    def __init__(self, endpoint: Endpoint, *, is_whole: bool = False) -> None:
        self.endpoint = endpoint
        self.stream: Stream | None = None
        self._inbox: Inbox[Message] = Inbox()
        self._metadata = NOTHING
        self._raw_metadata: bytes | None = None
        self._kept: Mapping[str, Any] | None = None
        self._taken = 0
        self._is_read = False
        self._part_text: PartText | None = None
        #: The whole reply, if its caller waits for that in place of parts.
        self._whole: asyncio.Future[Message] | None = endpoint.loop.create_future() if is_whole else None
        self._parts: list[Message] = []
        self._collected = 0
        self.is_over = False

    # --- for applications

    @property
    def id(self) -> int:
        """The number of the stream; 0 before the request is written."""
        return self.stream.id if self.stream is not None else 0

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the reply; empty until they arrive."""
        return self._metadata

    @property
    def kept_id(self) -> str | None:
        """The ID of a reply that the server keeps, for `session.follow`; known with its first part."""
        return str(self._kept["id"]) if self._kept is not None and "id" in self._kept else None

    @property
    def position(self) -> int:
        """The number of the part that was read last, counted from 1; 0 before the first."""
        after = self._kept.get("after", 0) if self._kept is not None else 0
        return int(after) + self._taken

    def __aiter__(self) -> AsyncIterator[Message]:
        self.endpoint.on_its_loop()
        if self._is_read:
            raise ParlanceError("invalid_argument", "a reply is read once")
        self._is_read = True
        return _Parts(self)

    async def _take(self) -> Message:
        """Return the next part. A time limit of the caller loses none; a cancelled task cancels the request."""
        try:
            part = await self._inbox.take()
        except asyncio.CancelledError:
            if task := asyncio.current_task():
                task.remove_done_callback(self._abandon)
                task.add_done_callback(self._abandon)
            raise
        if part is None:
            raise StopAsyncIteration
        self._taken += 1
        self.endpoint.consume(self.stream, part.charge)
        return part

    def _abandon(self, _: object) -> None:
        self._inbox.end(ParlanceError("cancelled", "the task that waited for this reply has ended"))
        self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()

    def cancel(self) -> None:
        """Stop the handler at the other end, or the following if this follows a reply. A second call has no effect."""
        if self.is_over:
            return
        self.is_over = True
        self._inbox.end()
        self._inbox.clear()
        self.endpoint.cancel(self)

    async def stop(self) -> None:
        """Stop the handler of a reply that is followed, from any session of its owner.

        Raises
        ------
        ParlanceError
            `unknown_reply`, `unsupported`.
        """
        if self.kept_id is None:
            raise ParlanceError("unknown_reply", "this reply is not kept, or its first part has not come")
        await self.endpoint.session.stop_reply(self.kept_id)

    async def whole(self) -> Message:
        """Return the whole reply of a request whose parts are not read one by one."""
        if self._whole is None:
            raise RuntimeError("this reply is read in parts")
        try:
            return await self._whole
        finally:
            self.cancel()

    # --- for the session

    def handle_part(self, body: ReceivedBody) -> None:
        """Take a part, or metadata that come as one."""
        if self.is_over:
            return
        if body.metadata is not None:
            self._learn(body.metadata)
            if not body.data:
                self.endpoint.consume(self.stream, body.charge)
                return
        if body.codec == frames.TOKEN_NATIVE:
            if self._part_text is None:
                held = self._kept.get("held", ()) if self._kept is not None and not self._taken else ()
                self._part_text = PartText(bytes(held))
        else:
            self._end_tokens()
        message = Message(body, self.endpoint.coder, part_text=self._part_text)
        if self._whole is not None:
            self._collect(message)
        else:
            self._inbox.put(message)

    def handle_response(self, body: ReceivedBody) -> None:
        """Take a whole reply."""
        if self.is_over:
            return
        if body.metadata is not None:
            self._learn(body.metadata)
        self.is_over = True
        message = Message(body, self.endpoint.coder)
        if self._whole is not None:
            if not self._whole.done():
                self._whole.set_result(message)
            return
        self._inbox.put(message)
        self._inbox.end()

    def handle_end(self, error: ParlanceError | None) -> None:
        """The reply is complete, or has failed."""
        if self.is_over:
            return
        self.is_over = True
        if error is None:
            try:
                self._end_tokens()
            except ParlanceError as incomplete:
                error = incomplete
        self._inbox.end(error)
        if self._whole is not None:
            self._settle(error)

    def fail(self, error: BaseException) -> None:
        """The request could not be sent."""
        self.is_over = True
        self._inbox.end(error)
        if self._whole is not None and not self._whole.done():
            self._whole.set_exception(error)

    def _end_tokens(self) -> None:
        part_text, self._part_text = self._part_text, None
        if part_text is not None:
            part_text.feed(b"", is_last=True)

    def _learn(self, metadata: bytes) -> None:
        value = metadata_of(metadata)
        kept = value.pop(_KEPT, None)
        if isinstance(kept, dict) and self._kept is None:
            self._kept = kept
        if value or kept is None:
            self._raw_metadata = metadata
            self._metadata = MappingProxyType(value)

    def _collect(self, part: Message) -> None:
        self._collected += part.charge
        most = self.endpoint.limits.max_message_size
        if self._collected > most:
            raise ParlanceError("message_too_large", f"a reply of more than {most} bytes; read it in parts")
        self._parts.append(part)
        self.endpoint.consume(self.stream, part.charge)

    def _settle(self, error: BaseException | None = None) -> None:
        if self._whole is None or self._whole.done():
            return
        try:
            if error is not None:
                raise error
            self._whole.set_result(join(self._parts, self.endpoint.coder, self._raw_metadata))
        except ParlanceError as failure:
            self._whole.set_exception(failure)


class _Parts:
    """An iterator over the parts of a reply: that of a loop goes when the loop is left."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Message]:
        return self._reply._take()

    async def aclose(self) -> None:
        self._reply.cancel()

    def __del__(self) -> None:
        # In any thread, and in the middle of anything.
        if not self._reply.is_over:
            with contextlib.suppress(RuntimeError):
                self._reply.endpoint.loop.call_soon_threadsafe(self._reply.cancel)
