"""A WebSocket connection (§1): messages in both directions, and the close code."""

from __future__ import annotations

import asyncio
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.legacy.protocol import WebSocketCommonProtocol

from .frames import MAX_MESSAGE

MAX_FRAME = MAX_MESSAGE + 65_536
MAX_FRAGMENTS = 1_024


class Fragments(WebSocketCommonProtocol):
    """WS-16: a message has a bounded number of fragments."""

    _fragments = 0

    async def read_data_frame(self, max_size: int | None) -> Any:
        frame = await super().read_data_frame(max_size)
        self._fragments = 0 if frame is None or frame.fin else self._fragments + 1
        if self._fragments > MAX_FRAGMENTS:
            self.fail_connection(1008, "too many fragments")
            # That cancels the task that reads for this connection, at its next pause.
            await asyncio.sleep(0)
        return frame


class Transport:
    """Writes without waiting, in order. `finish` closes behind what was written."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._queue: asyncio.Queue[bytes | str | tuple[int, str]] = asyncio.Queue()
        self._is_finished = False
        self._writer = asyncio.get_running_loop().create_task(self._write())

    def header(self, name: str) -> str | None:
        """At a server: a header of the upgrade request."""
        value = self._socket.request_headers.get(name)
        return None if value is None else str(value)

    @property
    def subprotocol(self) -> str:
        return str(self._socket.subprotocol)

    def send(self, message: bytes | str) -> None:
        if not self._is_finished:
            self._queue.put_nowait(message)

    def finish(self, code: int, reason: str) -> None:
        if not self._is_finished:
            self._is_finished = True
            self._queue.put_nowait((code, reason))

    async def receive(self) -> bytes | str | None:
        """The next message; None once the connection is closed."""
        try:
            message: bytes | str = await self._socket.recv()
            return message
        except ConnectionClosed:
            return None

    async def ended(self) -> int:
        """Waits until the connection is closed, and returns the code that the peer has used."""
        await self._socket.wait_closed()
        self._writer.cancel()
        return int(self._socket.close_code or 1006)

    async def _write(self) -> None:
        try:
            while True:
                item = await self._queue.get()
                if isinstance(item, tuple):
                    await self._socket.close(*item)
                    return
                await self._socket.send(item)
        except ConnectionClosed:
            pass
