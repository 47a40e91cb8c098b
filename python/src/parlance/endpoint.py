"""The layer between the core and the application: links, codecs, replies, handlers and messages of one session."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self, TypeVar

from .calls import CallOptions, Fail, WaitingCalls
from .codecs.coder import Coder
from .core.errors import ParlanceError
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
from .core.frames import RESPONSE
from .core.link import Link
from .core.outbox import Body
from .core.streams import Stream
from .handlers import Handlers, Tokens
from .inbox import Inbox
from .messages import Message
from .reply import Reply
from .setup import OTHER_LOOP, Setup, running_loop
from .tensors import read_tensor

if TYPE_CHECKING:
    from .session import Session

Value = TypeVar("Value")

_log: Final = logging.getLogger("parlance")


class Endpoint:
    """Everything of a session that its application does not see."""

    def __init__(self, setup: Setup, session: Session) -> None:
        self._setup = setup
        self.session = session
        self.limits = setup.limits
        self.messages: Inbox[Message] = Inbox()
        self.handlers = Handlers(self, setup.on_request)
        self.waiting = WaitingCalls()
        self.state = "connecting"
        self.peer_closes: PeerCloses | None = None
        self.peer_was_first = False
        self.is_rebuilt = False
        self._coder: Coder | None = None
        self.core, self.driver = setup.make(self.handle)
        self.wake = self.driver.wake
        self.loop, self.process = asyncio.get_running_loop(), os.getpid()
        self.opened: asyncio.Future[None] = self.loop.create_future()

    def on_its_loop(self) -> Self:
        """Return this.

        Raises
        ------
        ParlanceError
            `invalid_argument` in another loop or process, `unsupported` without a loop.
        """
        if running_loop() is not self.loop or os.getpid() != self.process:
            raise ParlanceError("invalid_argument", OTHER_LOOP)
        return self

    @property
    def link(self) -> Link:
        """The present link.

        Raises
        ------
        ParlanceError
            `session_closed`.
        """
        if self.core.link is None:
            raise ParlanceError("session_closed", "the session has not begun")
        return self.core.link

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

    def prepare(self, kind: int, body: object, options: CallOptions) -> Body:
        """Code, address and describe a body."""
        coded = self.encode(kind, body, secret=options.compress_alone, algorithm=options.algorithm)
        return options.apply(coded, self.link.agreement)

    def check_draining(self, options: CallOptions) -> None:
        """Refuse a request after GOAWAY, unless it may wait for the next session."""
        if self.core.is_draining and not options.retry_unsent:
            message = "the server drains and takes no new requests"
            raise ParlanceError("draining", message, retry_after=self.core.retry_after)

    async def end(self, error: ParlanceError | None) -> None:
        """Tell everybody who waits that the session is over, and leave no task."""
        self.state = "closed"
        failure = error or ParlanceError("session_closed", "the session is closed")
        for event in self.core.abandon(failure):
            self.handle(event)
        self.fail_waiting(failure)
        self.messages.end(error)
        await self.handlers.close()
        if not self.opened.done():
            self.opened.set_exception(failure)

    def call(self, write: Callable[[], None], fail: Fail, size: int) -> None:
        """Do it now, or as soon as there is a session."""
        if self.state in ("closing", "closed"):
            fail(ParlanceError("session_closed", "the session is closed"))
        elif self.core.link is None or self.core.is_over:
            self.waiting.add(write, fail, size)
        else:
            try:
                write()
            except ParlanceError as error:
                fail(error)

    def fail_waiting(self, error: ParlanceError) -> None:
        """There will be no session for calls that wait for one."""
        for _, fail in self.waiting.take():
            fail(error)

    def consume(self, stream: Stream | None, charge: int) -> None:
        """Give credit back for what was read."""
        if stream is not None and self.core.link is not None and charge:
            self.core.link.consume(stream, charge)
            self.wake()

    def cancel(self, reply: Reply) -> None:
        """Give a request up."""
        if reply.stream is not None and self.core.link is not None:
            self.core.link.cancel(reply.stream)
            self.wake()

    def fail_stream(self, stream: Stream) -> None:
        """Answer a request whose handler has not."""
        if self.core.link is not None:
            self.core.link.fail(stream, RuntimeError())
            self.wake()

    async def drained(self) -> None:
        """Wait until the socket has taken what may be written now."""
        if self.state == "closed":
            raise ParlanceError("session_closed", "the session is closed")
        await self.driver.drained()

    # --- events

    def handle(self, event: Event) -> None:
        """Take an event of the core."""
        match event:
            case PartReceived():
                self._to_reply(event.stream, Reply.handle_part, event.body)
            case ResponseReceived():
                self._to_reply(event.stream, Reply.handle_response, event.body)
            case StreamOver():
                self._to_reply(event.stream, Reply.handle_end, event.error)
            case MessageReceived(body):
                self.messages.put(Message(body, self.coder))
            case RequestReceived(stream, body):
                self.handlers.begin(stream, Message(body, self.coder))
            case RequestCancelled(stream):
                self.handlers.cancel(stream)
            case TensorReceived():
                self._take_tensor(event)
            case Established():
                self._established(event)
            case SessionReset():
                self._reset(event)
            case PeerCloses():
                self.peer_closes = event
                self.peer_was_first = self.state != "closing"
                self.state = "connecting" if self.core.is_followed else "closing"
            case DrainBegins():
                _log.info("the server drains; the next session begins elsewhere")

    def _to_reply(self, stream: Stream, action: Callable[[Reply, Value], None], value: Value) -> None:
        reply = stream.tag
        if not isinstance(reply, Reply):
            return
        try:
            action(reply, value)
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
        self.messages.put(Message(tensor.body(event.sender), self.coder, tensor=tensor))
        link.respond(stream, self.coder.encode(RESPONSE, b""))

    def _established(self, event: Established) -> None:
        self.driver.established()
        if event.is_new or event.is_rebuilt or self._coder is None:
            setup = self._setup
            vocabulary = setup.vocabulary if event.agreement.encoding is not None else None
            self._coder = Coder(event.agreement, vocabulary, setup.key)
            self.is_rebuilt = self.is_rebuilt or event.is_rebuilt
        if self.core.closing.is_open:
            self.state = "established"
        self.peer_closes = None
        if not self.opened.done():
            self.opened.set_result(None)
        for write, fail in self.waiting.take():
            self.call(write, fail, 0)

    def _reset(self, event: SessionReset) -> None:
        _log.warning("reset: %s", event.code)
        if self.state == "established" and event.code not in ("reloaded", "record_behind"):
            self.state = "connecting"
        if self._setup.on_reset is not None:
            try:
                self._setup.on_reset(event)
            except Exception:
                _log.exception("on_reset has failed")
