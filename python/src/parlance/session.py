"""The session of an application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from .calls import Call, CallOptions, WaitingCalls
from .codecs.coder import Coder, Content, content_of
from .core.agreement import Agreement
from .core.errors import ParlanceError, is_application_code
from .core.events import (
    DrainBegins,
    Established,
    Event,
    MessageReceived,
    PartReceived,
    PeerCloses,
    RequestCancelled,
    RequestReceived,
    ResponseReceived,
    SessionReset,
    StreamOver,
    TensorReceived,
)
from .core.frames import MESSAGE, REQUEST
from .core.limits import Limits
from .core.link import Link
from .core.outbox import Body
from .core.session import SessionCore
from .core.streams import Stream
from .driver import Driver
from .handlers import Handlers, Tokens
from .inbox import Inbox
from .messages import Message
from .reply import Reply
from .setup import SessionEnd, Setup
from .tensors import read_tensor, tensor_body
from .verbs import Verbs

_log: Final = logging.getLogger("parlance")
#: `send` waits while so many bytes are queued.
_MAX_QUEUED: Final = 1024 * 1024


class Session(Verbs):
    """A session with a server. Use it as `async with connect(…) as session`.

    Iterate over it to read one-way messages. If its connection is lost it connects again, and what was sent and asked
    goes on. If the session itself is lost, another one takes its place in the same object, and `on_reset` is told.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._messages: Inbox[Message] = Inbox()
        self._handlers = Handlers(self, setup.on_request)
        self._core: SessionCore | None = None
        self._driver: Driver | None = None
        self._task: asyncio.Task[None] | None = None
        self._coder: Coder | None = None
        self._waiting = WaitingCalls()
        self._opened: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[SessionEnd] | None = None
        self._state = "connecting"
        self._peer_closes: PeerCloses | None = None
        self._is_detached = False
        self._close_error: tuple[str | None, str] = (None, "")
        #: Whether the session of a former process was taken up.
        self.is_taken_up = False

    # --- opening and closing

    async def open(self) -> Self:
        """Connect; `async with` does it.

        Raises
        ------
        ParlanceError
            `connection_failed`, `rejected`, `bad_acceptance`, `timeout`; `invalid_option` if the store is in use.
        """
        if self._task is not None:
            raise ParlanceError("invalid_argument", "a session is opened once")
        loop = asyncio.get_running_loop()
        self._opened, self._closed = loop.create_future(), loop.create_future()
        self._core, self._driver = self._setup.make(self)
        self._task = asyncio.create_task(self._run(self._driver), name="parlance session")
        try:
            await asyncio.shield(self._opened)
        except BaseException:
            self._driver.stop()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            if self._opened.done():
                self._opened.exception()
            raise
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self.open().__await__()

    async def __aenter__(self) -> Self:
        return self if self._task is not None else await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, code: str | None = None, reason: str = "") -> int:
        """Close the session when everything that was sent is acknowledged, for at most `timers.closing` seconds.

        Parameters
        ----------
        code : str, optional
            Why, as a word that the server can compare: 1 to 64 of `a-z`, `0-9` and `_`.
        reason : str, default ''
            For people.

        Returns
        -------
        int
            How many frames were not acknowledged; 0 after an orderly close.

        Raises
        ------
        ParlanceError
            `invalid_argument`.
        """
        if code is not None and not is_application_code(code):
            raise ParlanceError("invalid_argument", f"code: expected 1 to 64 of a-z, 0-9 and _, not {code!r}")
        core, driver, task = self._core, self._driver, self._task
        if core is None or driver is None or task is None:
            return 0
        if not task.done():
            self._close_error = (code, reason)
            core.close(driver.now(), code=code, message=reason)
            self._state = "closing"
            self._waiting.fail(ParlanceError("session_closed", "the session is closed"))
            driver.stop()
        try:
            await asyncio.shield(asyncio.gather(task, return_exceptions=True))
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        return len(core.link.outbox.unacknowledged) if core.link is not None else 0

    async def detach(self) -> None:
        """Leave the session to the next process, which takes it up with the same store; this object ends.

        Raises
        ------
        ParlanceError
            `unsupported` without a store, or if the two ends have not agreed on `rebuild`.
        """
        core, driver, task = self._core, self._driver, self._task
        is_kept = core is not None and core.ticket is not None and core.agreement is not None
        if core is None or driver is None or task is None or not is_kept or not self.agreement.has("rebuild"):
            raise ParlanceError("unsupported", "only an open session with a store can be left to the next process")
        self._is_detached = True
        core.save_now()
        driver.detach()
        await asyncio.gather(task, return_exceptions=True)

    @property
    def closed(self) -> asyncio.Future[SessionEnd]:
        """Await it to learn how the session has ended; it never raises."""
        if self._closed is None:
            raise ParlanceError("session_closed", "the session was not opened")
        return asyncio.shield(self._closed)

    async def _run(self, driver: Driver) -> None:
        error: ParlanceError | None = None
        try:
            error = await driver.run()
        except asyncio.CancelledError:
            error = ParlanceError("session_closed", "the session was cancelled")
            raise
        except Exception as failure:
            _log.exception("the session has failed")
            error = ParlanceError("internal", repr(failure))
        finally:
            await self._end(error)

    async def _end(self, error: ParlanceError | None) -> None:
        """The session is over: everybody who waits is told, and no task is left."""
        self._state = "closed"
        core = self._core
        failure = error or ParlanceError("session_closed", "the session is closed")
        if core is not None:
            for event in core.abandon(failure):
                self.handle(event)
        self._waiting.fail(failure)
        self._messages.end(error)
        await self._handlers.close()
        self._setup.release(not self._is_detached)
        peer = self._peer_closes
        code, reason = self._close_error
        if peer is not None and (code is None or peer.code is not None):
            code, reason = peer.code, peer.message
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(SessionEnd(error, code, reason, peer is not None))
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(failure)

    # --- state

    @property
    def id(self) -> str:
        """The ID of the session; empty before it begins."""
        return self._core.agreement.session_id if self._core is not None and self._core.agreement is not None else ""

    @property
    def state(self) -> str:
        """`connecting`, `established`, `suspended`, `closing` or `closed`."""
        core = self._core
        if self._state == "established" and core is not None and not core.is_established:
            return "suspended"
        return self._state

    @property
    def agreement(self) -> Agreement:
        """What the two ends have agreed on.

        Raises
        ------
        ParlanceError
            `session_closed` before the session begins.
        """
        if self._core is None or self._core.agreement is None:
            raise ParlanceError("session_closed", "the session has not begun")
        return self._core.agreement

    @property
    def limits(self) -> Limits:
        """What this end takes."""
        return self._setup.limits

    @property
    def agent_id(self) -> str | None:
        """The agent that this session is, if it is one."""
        return self.agreement.agent_id

    def __repr__(self) -> str:
        return f"<Session {self.id or '-'} {self.state}>"

    def stats(self) -> dict[str, int]:
        """Return counts: open streams, bytes that wait to be written, and frames that wait to be acknowledged."""
        if self._core is None or self._core.link is None:
            return {"open_streams": 0, "queued_bytes": 0, "unacknowledged": 0}
        link = self._core.link
        return {
            "open_streams": link.streams.own + link.streams.peer,
            "queued_bytes": link.outbox.queued_bytes + self._waiting.size,
            "unacknowledged": len(link.outbox.unacknowledged),
        }

    # --- messages

    async def __aiter__(self) -> AsyncIterator[Message]:
        while (message := await self._messages.take()) is not None:
            self.consume(self._core.link.messages if self._core and self._core.link else None, message.charge)
            yield message

    async def send(
        self,
        body: object,
        *,
        to: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        secret: bool = False,
        algorithm: str | None = None,
        retry: bool = False,
    ) -> None:
        """Send a one-way message. It returns when the message is queued, which waits while much is.

        Parameters
        ----------
        body : str, bytes-like, Tokens, or what json.dumps takes
            A buffer is copied before this returns control for the first time.
        to : str, optional
            An agent, by its ID or address; the server itself if it is left out.
        metadata : mapping, optional
        secret : bool, default False
            Keeps the body out of context coding, so that sizes do not tell what it has in common with others.
        algorithm : str, optional
            Such as `NONE`; the best that was agreed on if it is left out.
        retry : bool, default False
            Whether the message moves to the next session if this one is lost before anything of it was written.

        Raises
        ------
        ParlanceError
            `session_closed`, `message_too_large`, `unsupported`, `unrepresentable`, `invalid_argument`,
            `metadata_too_large`, `over_budget`.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        options = CallOptions(to, metadata, secret, algorithm, retry)
        frozen = _frozen(body)

        def write() -> None:
            if future.done():
                return
            if to is None and not self.agreement.link.messages:
                raise ParlanceError("unsupported", "the server reads no one-way messages")
            self.link.send(self._prepare(MESSAGE, frozen, options))
            future.set_result(None)
            self.wake()

        self._call(Call(write, lambda error: _fail(future, error), len(frozen)))
        await future
        while self._state != "closed" and self.link.outbox.queued_bytes > _MAX_QUEUED:
            await self.drained()

    async def request(
        self,
        body: object = b"",
        *,
        to: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        secret: bool = False,
        algorithm: str | None = None,
        retry: bool = False,
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
        reply = Reply(self, is_whole=True)
        self._ask(reply, body, CallOptions(to, metadata, secret, algorithm, retry))
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
        secret: bool = False,
        algorithm: str | None = None,
        retry: bool = False,
    ) -> Reply:
        """Send a request at once, and return its reply part by part.

        Raises
        ------
        ParlanceError
            Errors of `send`; others come from the loop.
        """
        reply = Reply(self)
        self._ask(reply, body, CallOptions(to, metadata, secret, algorithm, retry))
        return reply

    def _ask(self, reply: Reply, body: object, options: CallOptions) -> None:
        frozen = _frozen(body)

        def write() -> None:
            if not reply.is_over:
                self._check_draining(options)
                reply.stream = self.link.open(self._prepare(REQUEST, frozen, options), reply)
                self.wake()

        self._call(Call(write, reply.fail, len(frozen)))

    def _check_draining(self, options: CallOptions) -> None:
        """Refuse a request after GOAWAY, unless it may wait for the next session."""
        core = self._core
        if core is not None and core.is_draining and not options.retry:
            message = "the server drains and takes no new requests"
            raise ParlanceError("draining", message, retry_after=core.retry_after)

    def _prepare(self, kind: int, body: object, options: CallOptions) -> Body:
        coded = self.encode(kind, body, secret=options.secret, algorithm=options.algorithm)
        return options.apply(coded, self.agreement)

    def _call(self, call: Call) -> None:
        """Do it now, or as soon as there is a session."""
        if self._state in ("closing", "closed"):
            call.fail(ParlanceError("session_closed", "the session is closed"))
        elif self._core is not None and self._core.link is not None and not self._core.is_over:
            call.run()
        else:
            self._waiting.add(call)

    async def flush(self) -> None:
        """Wait until everything that was sent is acknowledged.

        Raises
        ------
        ParlanceError
            `session_closed`.
        """
        while self._waiting or not (self._core and self._core.link and self._core.link.is_acknowledged):
            if self._state == "closed":
                raise ParlanceError("session_closed", "the session ended before everything was acknowledged")
            await self.drained()

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
        reply = Reply(self, is_whole=True)

        def write() -> None:
            body = tensor_body(array, self.agreement.max_transfer_size, metadata)
            body.to = to
            stream = reply.stream = self.link.open(body, reply)
            stream.is_tensor = True
            self.wake()

        self._call(Call(write, reply.fail, 0))
        await reply.whole()

    # --- for replies and handlers

    @property
    def link(self) -> Link:
        """The present link.

        Raises
        ------
        ParlanceError
            `session_closed`.
        """
        if self._core is None or self._core.link is None:
            raise ParlanceError("session_closed", "the session has not begun")
        return self._core.link

    @property
    def coder(self) -> Coder:
        """Codes and decodes bodies of the present session."""
        if self._coder is None:
            raise ParlanceError("session_closed", "the session has not begun")
        return self._coder

    def encode(self, kind: int, body: object, *, secret: bool = False, algorithm: str | None = None) -> Body:
        """Code a body."""
        if isinstance(body, Tokens):
            return self.coder.encode_tokens(kind, body.ids, secret=secret)
        return self.coder.encode(kind, body, secret=secret, algorithm=algorithm)

    def consume(self, stream: Stream | None, charge: int) -> None:
        """Give credit back for what was read."""
        if stream is not None and self._core is not None and self._core.link is not None and charge:
            self._core.link.consume(stream, charge)
            self.wake()

    def cancel(self, reply: Reply) -> None:
        """Give a request up."""
        if reply.stream is not None and self._core is not None and self._core.link is not None:
            self._core.link.cancel(reply.stream)
            self.wake()

    def end_stream(self, stream: Stream) -> None:
        """Answer a request whose handler was never entered."""
        if self._core is not None and self._core.link is not None:
            self._core.link.end(stream)
            self.wake()

    def wake(self) -> None:
        """Something may have to be written."""
        if self._driver is not None:
            self._driver.wake()

    async def drained(self) -> None:
        """Wait until the socket has taken what may be written now."""
        if self._driver is None or self._state == "closed":
            raise ParlanceError("session_closed", "the session is closed")
        await self._driver.drained()

    # --- events

    def handle(self, event: Event) -> None:
        """Take an event of the core."""
        match event:
            case PartReceived(stream, body):
                self._to_reply(stream, lambda reply: reply.handle_part(body))
            case ResponseReceived(stream, body):
                self._to_reply(stream, lambda reply: reply.handle_response(body))
            case StreamOver(stream, error):
                self._to_reply(stream, lambda reply: reply.handle_end(error))
            case MessageReceived(body):
                self._messages.put(Message(body, self.coder))
            case RequestReceived(stream, body):
                self._handlers.begin(stream, Message(body, self.coder))
            case RequestCancelled(stream):
                self._handlers.cancel(stream)
            case TensorReceived():
                self._take_tensor(event)
            case Established():
                self._established(event)
            case SessionReset():
                self._reset(event)
            case PeerCloses():
                self._peer_closes = event
                self._state = "closing"
            case DrainBegins():
                _log.info("the server drains; the next session begins elsewhere")

    def _to_reply(self, stream: Stream, action: Callable[[Reply], None]) -> None:
        reply = stream.tag
        if not isinstance(reply, Reply):
            return
        try:
            action(reply)
        except ParlanceError as error:
            # A reply that cannot be decoded fails its request alone (ERR-6).
            reply.handle_end(error)
            self.cancel(reply)

    def _take_tensor(self, event: TensorReceived) -> None:
        stream, link = event.stream, self.link
        try:
            tensor = read_tensor(event, self.limits)
        except ParlanceError as error:
            link.fail(stream, error)
            return
        self._messages.put(Message(tensor.body(event.sender), self.coder, tensor=tensor))
        link.respond(stream, self.coder.encode(0x12, b""))

    def _established(self, event: Established) -> None:
        if self._driver is not None:
            self._driver.established()
        if event.is_new or event.is_taken_up or self._coder is None:
            setup = self._setup
            vocabulary = setup.vocabulary if event.agreement.encoding is not None else None
            self._coder = Coder(event.agreement, vocabulary, setup.key)
            self.is_taken_up = self.is_taken_up or event.is_taken_up
        if self._core is not None and self._core.closing.is_open:
            self._state = "established"
        self._peer_closes = None
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)
        self._waiting.run()

    def _reset(self, event: SessionReset) -> None:
        _log.warning("reset: %s", event.reason)
        if self._state == "established" and event.reason not in ("reloaded", "record_behind"):
            self._state = "connecting"
        if self._setup.on_reset is not None:
            try:
                self._setup.on_reset(event)
            except Exception:
                _log.exception("on_reset has failed")


def _frozen(body: object) -> Tokens | Content:
    """Return a body that its caller cannot change any more."""
    return body if isinstance(body, Tokens) else content_of(body)


def _fail(future: asyncio.Future[None], error: ParlanceError) -> None:
    if not future.done():
        future.set_exception(error)
