"""The session of an application."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Generator, Mapping
from typing import Any, Final, Self

from .calls import CallOptions, frozen
from .core.agreement import Agreement
from .core.errors import ParlanceError, is_application_code
from .core.frames import MESSAGE, REQUEST
from .endpoint import Endpoint
from .handlers import answering
from .messages import Message
from .reply import Reply
from .setup import SessionEnd, Setup, running_loop
from .tensors import tensor_body
from .verbs import Verbs

_log: Final = logging.getLogger("parlance")
#: `send` waits while so many bytes are queued.
_MAX_QUEUED: Final = 1024 * 1024


class Session(Verbs):
    """A session with a server. Use it as `async with connect(…) as session`.

    Iterate over it to read one-way messages. If its connection is lost it connects again, and what was sent and asked
    continues. If the session itself is lost, another one takes its place in the same object, and `on_reset` is told.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._endpoint: Endpoint | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed: asyncio.Future[SessionEnd] | None = None
        self._is_detached = False
        self._stated: tuple[str | None, str] = (None, "")

    @property
    def _open(self) -> Endpoint:
        if self._endpoint is None:
            raise ParlanceError("session_closed", "the session was not opened: `async with connect(…) as session`")
        return self._endpoint.on_its_loop()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the session belongs to; `None` before it is opened, and in a forked process."""
        endpoint = self._endpoint
        return endpoint.loop if endpoint is not None and endpoint.process == os.getpid() else None

    # --- opening and closing

    async def open(self) -> Self:
        """Connect; `async with` and `await` do it.

        Raises
        ------
        ParlanceError
            `connection_failed`, `rejected`, `bad_acceptance`, `timeout`; `invalid_option` if the store is in use.
        """
        if self._endpoint is not None:
            raise ParlanceError("invalid_argument", "a session is opened once")
        self._closed = running_loop().create_future()
        endpoint = self._endpoint = Endpoint(self._setup, self)
        self._task = asyncio.create_task(self._run(endpoint), name="parlance session")
        try:
            await asyncio.shield(endpoint.opened)
        except BaseException:
            endpoint.driver.stop()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            endpoint.opened.exception()
            raise
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self.open().__await__()

    async def __aenter__(self) -> Self:
        if self._task is None:
            return await self.open()
        _ = self._open
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, code: str | None = None, reason: str = "") -> int:
        """Close the session when everything that was sent is acknowledged, for at most `timers.closing` seconds.

        A request or reply whose reader takes nothing is cut short after a tenth of that. In a handler this does not
        wait, as the handler ends with the session.

        Parameters
        ----------
        code : str, optional
            Why, as a word that the server can compare: 1 to 64 of `a-z`, `0-9` and `_`.
        reason : str, default ''
            For people.

        Returns
        -------
        int
            How many frames and bodies were not acknowledged; 0 after an orderly close.

        Raises
        ------
        ParlanceError
            `invalid_argument`.
        """
        if code is not None and not is_application_code(code):
            raise ParlanceError("invalid_argument", f"code: expected 1 to 64 of a-z, 0-9 and _, not {code!r}")
        task = self._task
        if task is None or self._endpoint is None:
            return 0
        core = self._endpoint.core
        if not task.done():
            endpoint = self._open
            self._stated = (code, reason)
            core.close(endpoint.loop.time(), code=code, message=reason)
            endpoint.state = "closing"
            endpoint.fail_waiting(ParlanceError("session_closed", "the session is closed"))
            endpoint.driver.stop()
            try:
                if answering.get() is not self:
                    await asyncio.wait((task,))
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait((task,))
                raise
        return len(core.link.outbox.unacknowledged) + core.closing.cut if core.link is not None else 0

    async def detach(self) -> None:
        """Leave the session to the next process, which takes it up with the same store; this object ends.

        Raises
        ------
        ParlanceError
            `unsupported` without a store, or if the two ends have not agreed on `rebuild`.
        """
        endpoint, task = self._open, self._task
        core = endpoint.core
        if task is None or core.ticket is None or core.agreement is None or not core.agreement.has("rebuild"):
            raise ParlanceError("unsupported", "only an open session with a store can be left to the next process")
        self._is_detached = True
        core.save_now()
        endpoint.driver.detach()
        if answering.get() is not self:
            await asyncio.wait((task,))

    @property
    def closed(self) -> asyncio.Future[SessionEnd]:
        """Await it to learn how the session has ended; it never raises."""
        if self._closed is None:
            raise ParlanceError("session_closed", "the session was not opened")
        return asyncio.shield(self._closed)

    async def _run(self, endpoint: Endpoint) -> None:
        error: ParlanceError | None = None
        try:
            error = await endpoint.driver.run()
        except asyncio.CancelledError:
            error = ParlanceError("session_closed", "the session was cancelled")
            raise
        except Exception as failure:
            _log.exception("the session has failed")
            error = ParlanceError("internal", repr(failure))
        finally:
            await self._end(endpoint, error)

    async def _end(self, endpoint: Endpoint, error: ParlanceError | None) -> None:
        """End the session: every waiting call fails or returns, and no task is left."""
        is_left = self._is_detached or endpoint.driver.is_left_in_store
        await endpoint.end(error)
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(self._how(endpoint, error))
        self._setup.release(not is_left)

    def _how(self, endpoint: Endpoint, error: ParlanceError | None) -> SessionEnd:
        """Return the CLOSE that counts: that of the end that closed first, or of the only one with a code (CLOSE-2)."""
        peer = endpoint.peer_closes
        code, reason = self._stated
        is_only = peer is not None and peer.code is not None and code is None
        if peer is not None and (is_only or (endpoint.peer_was_first and (peer.code is not None or code is None))):
            return SessionEnd(error, peer.code, peer.message, by_server=True)
        return SessionEnd(error, code, reason)

    @property
    def id(self) -> str:
        """The ID of the session; empty before it begins."""
        agreement = self._endpoint.core.agreement if self._endpoint is not None else None
        return agreement.session_id if agreement is not None else ""

    @property
    def state(self) -> str:
        """`connecting`, `established`, `suspended`, `closing` or `closed`."""
        endpoint = self._endpoint
        if endpoint is None:
            return "connecting"
        is_suspended = endpoint.state == "established" and not endpoint.core.is_established
        return "suspended" if is_suspended else endpoint.state

    @property
    def transport(self) -> str:
        """`websocket` or `http`: how the frames of the present connection travel; empty before there is one."""
        return self._endpoint.driver.transport if self._endpoint is not None else ""

    @property
    def is_rebuilt(self) -> bool:
        """Whether the session of a former process was rebuilt."""
        return self._endpoint is not None and self._endpoint.is_rebuilt

    @property
    def agreement(self) -> Agreement:
        """The agreement of the two ends.

        Raises
        ------
        ParlanceError
            `session_closed` before the session begins.
        """
        return self._open.link.agreement

    @property
    def agent_id(self) -> str | None:
        """The agent that this session is, if it is one."""
        return self.agreement.agent_id

    def __repr__(self) -> str:
        return f"<Session {self.id or '-'} {self.state}>"

    def stats(self) -> dict[str, int]:
        """Return counts: open streams, bytes that wait to be written, and frames that wait to be acknowledged."""
        endpoint = self._endpoint
        if endpoint is None or endpoint.core.link is None:
            return {"open_streams": 0, "queued_bytes": 0, "unacknowledged": 0}
        link = endpoint.core.link
        return {
            "open_streams": link.streams.own + link.streams.peer,
            "queued_bytes": link.outbox.queued_bytes + endpoint.waiting.size,
            "unacknowledged": len(link.outbox.unacknowledged),
        }

    # --- messages

    def __aiter__(self) -> Self:
        _ = self._open
        return self

    async def __anext__(self) -> Message:
        endpoint = self._open
        message = await endpoint.messages.take()
        if message is None:
            raise StopAsyncIteration
        endpoint.consume(endpoint.link.messages, message.charge)
        return message

    async def send(
        self,
        body: object,
        *,
        to: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        compress_alone: bool = False,
        algorithm: str | None = None,
        retry_unsent: bool = False,
    ) -> None:
        """Send a one-way message. It returns when the message is queued, which waits while much is.

        Parameters
        ----------
        body : str, bytes-like, Tokens, or what json.dumps takes
            A buffer is copied before this returns control for the first time.
        to : str, optional
            An agent, by its ID or address; the server itself if it is left out.
        metadata : mapping, optional
        compress_alone : bool, default False
            Keeps the body out of context coding, so that sizes do not tell what it has in common with others.
        algorithm : str, optional
            Such as `NONE`; the best that was agreed on if it is left out.
        retry_unsent : bool, default False
            Whether the message moves to the next session if this one is lost before anything of it was written.

        Raises
        ------
        ParlanceError
            `session_closed`, `message_too_large`, `unsupported`, `unrepresentable`, `invalid_argument`,
            `metadata_too_large`, `over_budget`.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        endpoint = self._open
        options = CallOptions(to, metadata, compress_alone, algorithm, retry_unsent)
        content = frozen(body)

        def write() -> None:
            if future.done():
                return
            if to is None and not endpoint.link.agreement.link.messages:
                raise ParlanceError("unsupported", "the server reads no one-way messages")
            endpoint.link.send(endpoint.prepare(MESSAGE, content, options))
            future.set_result(None)
            endpoint.wake()

        endpoint.call(write, lambda error: None if future.done() else future.set_exception(error), len(content))
        await future
        while endpoint.state != "closed" and endpoint.link.outbox.queued_bytes > _MAX_QUEUED:
            await endpoint.drained()

    async def request(
        self,
        body: object = b"",
        *,
        to: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        compress_alone: bool = False,
        algorithm: str | None = None,
        retry_unsent: bool = False,
    ) -> Message:
        """Send a request and return the whole reply, whose parts are joined.

        If the task is cancelled, or the time is over, the request is cancelled at the other end.

        Parameters
        ----------
        timeout : float, optional
            Seconds until the reply has to be complete.

        Raises
        ------
        ParlanceError
            The error of the handler, which is a `RequestError` if it is the application's; `timeout`, `session_lost`;
            errors of `send`.
        """
        reply = Reply(self._open, is_whole=True)
        self._ask(reply, body, CallOptions(to, metadata, compress_alone, algorithm, retry_unsent))
        if timeout is None:
            return await reply.whole()
        try:
            async with asyncio.timeout(timeout):
                return await reply.whole()
        except TimeoutError:
            raise ParlanceError("timeout", f"no reply within {timeout} s") from None

    def stream(
        self,
        body: object = b"",
        *,
        to: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        compress_alone: bool = False,
        algorithm: str | None = None,
        retry_unsent: bool = False,
    ) -> Reply:
        """Send a request at once, and return its reply part by part.

        Raises
        ------
        ParlanceError
            Errors of `send`; others come from the loop.
        """
        reply = Reply(self._open)
        self._ask(reply, body, CallOptions(to, metadata, compress_alone, algorithm, retry_unsent))
        return reply

    def _ask(self, reply: Reply, body: object, options: CallOptions) -> None:
        endpoint = reply.endpoint
        content = frozen(body)

        def write() -> None:
            if not reply.is_over:
                endpoint.check_draining(options)
                reply.stream = endpoint.link.open(endpoint.prepare(REQUEST, content, options), reply)
                endpoint.wake()

        endpoint.call(write, reply.fail, len(content))

    async def flush(self) -> None:
        """Wait until everything that was sent is acknowledged.

        Raises
        ------
        ParlanceError
            `session_closed`.
        """
        endpoint = self._open
        while len(endpoint.waiting) or endpoint.core.link is None or not endpoint.core.link.is_acknowledged:
            await endpoint.drained()

    async def send_tensor(
        self, array: Any, *, to: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Hand a tensor over, and return when its receiver has verified all of it.

        Parameters
        ----------
        array : numpy.ndarray, torch.Tensor or Tensor
            float32, float16, bfloat16 or int8. It is not copied if it is contiguous: do not change it before this
            returns.
        metadata : mapping, optional
            Fields of the AVP metadata, such as `model_id` and `extra`.

        Raises
        ------
        ParlanceError
            `transfer_too_large`, `bad_tensor`, `unsupported`, and what its receiver says.
        """
        endpoint = self._open
        reply = Reply(endpoint, is_whole=True)

        def write() -> None:
            body = CallOptions(to).apply(
                tensor_body(array, endpoint.link.agreement.max_transfer_size, metadata), endpoint.link.agreement
            )
            reply.stream = endpoint.link.open(body, reply)
            reply.stream.is_tensor = True
            endpoint.wake()

        endpoint.call(write, reply.fail, 0)
        await reply.whole()
