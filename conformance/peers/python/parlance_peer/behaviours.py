"""The behaviours of a peer under test (conformance/README.md, "Test your own implementation")."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from . import avp
from .control import Fields
from .errors import ProtocolError, RequestError
from .frames import Codec, Kind
from .incoming import Message
from .link import Call, Link, error_body
from .outbox import Body

if TYPE_CHECKING:
    from .session import Session


def padded(what: str, index: int, size: int) -> bytes:
    return f"{what} {index} ".ljust(size, ".").encode()


class Behaviours:
    """The application of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._messages = 0
        self._crc = 0
        self._cancelled = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._known: dict[str, Callable[[int, Fields, Message], Awaitable[None]]] = {
            "echo": self._echo,
            "stream": self._stream,
            "say": self._say,
            "fail": self._fail,
            "hang": self._hang,
            "tally": self._tally,
            "ask": self._ask,
            "tensor": self._tensor,
            "close": self._close,
        }

    @property
    def _link(self) -> Link:
        link = self._session.link
        if link is None:
            raise RuntimeError("requests need a link")
        return link

    def on_message(self, message: Message) -> None:
        content = message.content
        self._messages += 1
        self._crc = zlib.crc32(content, self._crc)

    def on_request(self, stream: int, message: Message) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._answer(stream, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def stop(self) -> None:
        """The session closes: replies that are not over get no END (SES-11)."""
        for task in self._tasks:
            task.cancel()

    async def _answer(self, stream: int, message: Message) -> None:
        try:
            if message.codec == Codec.AVP:
                avp.verify(message.coded)
                self._respond(stream, b"", codec=Codec.NONE)
                return
            wish = message.metadata
            behaviour = self._known.get(str(wish.get("test")))
            if behaviour is None:
                raise RequestError("unknown_test", "this test is not known", retryable=False)
            await behaviour(stream, wish, message)
        except ProtocolError as error:
            # ERR-5: a request that cannot be decoded. An error of the protocol has no `retryable` (STR-12).
            self._link.reply(stream, error_body(RequestError(error.code, str(error))))
        except RequestError as error:
            self._link.reply(stream, error_body(error))

    def _respond(self, stream: int, content: bytes, codec: Codec | None = None, metadata: Fields | None = None) -> None:
        chosen = self._link.choose() if codec is None else codec
        self._link.reply(stream, Body(Kind.RESPONSE, content, chosen, metadata))

    def _respond_json(self, stream: int, value: Any) -> None:
        self._respond(stream, json.dumps(value).encode())

    async def _echo(self, stream: int, wish: Fields, message: Message) -> None:
        self._respond(stream, message.content, metadata=wish.get("reply"))

    async def _stream(self, stream: int, wish: Fields, _: Message) -> None:
        for index in range(1, wish["parts"] + 1):
            self._link.reply(stream, Body(Kind.CHUNK, padded("part", index, wish["size"]), self._link.choose()))
        self._link.reply(stream, Body(Kind.END))

    async def _say(self, stream: int, wish: Fields, _: Message) -> None:
        codec = self._link.choose(wish.get("codec"))
        for index in range(1, wish["messages"] + 1):
            text = wish.get("text")
            content = padded("message", index, wish.get("size", 0)) if text is None else text.encode()
            self._link.send_message(content, codec)
        self._respond(stream, b"")

    async def _fail(self, _: int, wish: Fields, __: Message) -> None:
        raise RequestError(wish["code"], wish["message"], retryable=wish.get("retryable", False))

    async def _hang(self, _: int, wish: Fields, __: Message) -> None:
        for_ever = asyncio.get_running_loop().create_future
        try:
            await for_ever()
        finally:
            self._cancelled += 1
            if wish.get("stays") is True and not self._session.over.done():
                await for_ever()

    async def _tally(self, stream: int, _: Fields, __: Message) -> None:
        self._respond_json(stream, {"messages": self._messages, "crc": self._crc, "cancelled": self._cancelled})

    async def _ask(self, stream: int, wish: Fields, _: Message) -> None:
        text = wish.get("text")
        content = padded("question", 1, wish.get("size", 0)) if text is None else text.encode()
        codec = self._link.choose(wish.get("codec"))
        calls = [self._link.open(content, codec, {"test": "answer"}) for _ in range(wish.get("requests", 1))]
        told = await asyncio.gather(*(self._read(call, wish.get("cancel_after")) for call in calls))
        self._respond_json(stream, told)

    async def _read(self, call: Call, cancel_after: int | None) -> Fields:
        def count() -> None:
            if len(call.parts) == cancel_after:
                self._link.cancel(call)

        call.on_part = count
        error = None
        try:
            await call.over
            parts = [part.content.decode() for part in call.parts]
        except (RequestError, ProtocolError) as failure:
            parts = [part.content.decode() for part in call.parts] if isinstance(failure, RequestError) else []
            error = {"code": failure.code, "message": str(failure)}
        return {"parts": parts, "error": error}

    async def _tensor(self, stream: int, wish: Fields, _: Message) -> None:
        values = wish["values"]
        body = avp.encode([values], struct.pack(f"<{values}f", *range(values)))
        try:
            await self._link.open(body, Codec.AVP).over
            self._respond_json(stream, {"error": None})
        except RequestError as error:
            self._respond_json(stream, {"error": error.code})

    async def _close(self, _: int, wish: Fields, __: Message) -> None:
        self._session.close(wish.get("code"), wish.get("message", ""))
        await asyncio.get_running_loop().create_future()
