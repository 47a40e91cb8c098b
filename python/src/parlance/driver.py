"""The only holder of a socket: connects, reads, writes, and connects again."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import math
import random
from collections.abc import Callable
from typing import Any, Final

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from .core import errors
from .core.errors import ParlanceError
from .core.events import CredentialsEnd, Event, Leave, MoveAsked, Rejected
from .core.limits import Limits, Timers
from .core.session import SessionCore
from .dialing import dial
from .options import Reconnect, TokenSource

_log: Final = logging.getLogger("parlance")
#: How often a function is asked again for credentials that the server has refused.
_MAX_REFUSED: Final = 3
#: Credentials are renewed when so much of their time is over.
_RENEW_AT: Final = 0.7
_RENEW_BEFORE: Final = 60.0
#: How long after REJECT the close code may take.
_REJECT_PATIENCE: Final = 5.0
#: How often a session follows a server that asks it to move; an honest one asks once for each node.
_MAX_MOVES: Final = 8


class Driver:
    """One task that owns the socket of a session, from `run` to its end.

    Parameters
    ----------
    handle : callable
        Gets each event of the core.
    """

    def __init__(
        self,
        core: SessionCore,
        url: str,
        *,
        token: TokenSource | None,
        limits: Limits,
        timers: Timers,
        reconnect: Reconnect | None,
        socket_options: dict[str, Any],
        handle: Callable[[Event], None],
    ) -> None:
        self.core = core
        self._url = url
        self._token = token
        self._limits = limits
        self._timers = timers
        self._reconnect = reconnect
        self._socket_options = socket_options
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._drained: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._connection: ClientConnection | None = None
        self._leaving: tuple[int, str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._rejection: ParlanceError | None = None
        self._refused = 0
        self._attempts = 0
        self._renewal: asyncio.Task[None] | None = None
        self._next: ClientConnection | None = None
        self._move: asyncio.Task[None] | None = None
        self._moves = 0
        #: The application closes, or leaves the session to the next process.
        self.is_stopping = False
        self.has_begun = False
        self._end: ParlanceError | None = None

    # --- the loop

    async def run(self) -> ParlanceError | None:
        """Carry the session until it is over, and return why; `None` if it was closed."""
        began = self._loop.time()
        try:
            while True:
                code, failure = await self._attempt()
                events = self.core.lost(self._loop.time(), code)
                self._dispatch(events)
                if not self._comes_back(code, failure, began):
                    return self._end
                await self._pause(self._delay(failure))
                if self._is_finished():
                    return self._end
        finally:
            await self._close()

    async def _attempt(self) -> tuple[int, ParlanceError | None]:
        """Carry the session over one connection, and return the close code and what has kept it from opening."""
        self._rejection = None
        connection, self._next = self._next, None
        try:
            token = await self._credentials()
            if connection is None:
                connection = await dial(self._url, self._limits, self._timers, self._socket_options)
        except ParlanceError as error:
            return errors.ABNORMAL, error
        code = await self._carry(connection, token)
        return code, self._rejection

    async def _credentials(self) -> str | None:
        if self._token is None or isinstance(self._token, str):
            return self._token
        try:
            answer = self._token()
            token = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            _log.warning("the function of the option token has failed: %r", error)
            raise ParlanceError("unauthenticated", f"the option token has failed: {error!r}", retryable=True) from error
        return str(token)

    def _comes_back(self, code: int, failure: ParlanceError | None, began: float) -> bool:
        """Whether to connect again; if not, `_end` says why."""
        core = self.core
        if self._next is not None:
            return True
        if self._is_finished():
            return False
        if core.is_draining and failure is None and not core.closing.is_sent_away:
            return True
        self._end = failure or _ended(code)
        asks_again = code == errors.UNAUTHENTICATED and self._may_ask_again()
        if failure is not None:
            self._describe(failure, code)
            may_return = failure.retryable or asks_again
        else:
            may_return = asks_again or code in errors.COME_BACK or code == errors.STALE_ATTEMPT
        if self._reconnect is None or not may_return:
            return False
        if not self.has_begun and self._loop.time() - began >= self._reconnect.connect_within:
            return False
        _log.log(logging.INFO if self._attempts else logging.WARNING, "%s; trying again", self._end.message)
        return True

    def _is_finished(self) -> bool:
        """Whether the session was closed, left to the next process, or has failed."""
        core = self.core
        is_closed = core.is_over and not core.closing.is_open and (not core.is_draining or core.closing.is_sent_away)
        is_left = self.is_stopping and (core.ticket is None or core.closing.is_open)
        if is_closed or is_left or core.end is not None:
            self._end = core.end
            return True
        return False

    def _may_ask_again(self) -> bool:
        self._refused += 1
        return callable(self._token) and self._refused <= _MAX_REFUSED

    def _describe(self, failure: ParlanceError, code: int) -> None:
        if failure.code == "rejected" and isinstance(failure.data, dict):
            if failure.data["retryable"] is None:
                failure.retryable = code in errors.COME_BACK
            failure.close_code = code

    def _delay(self, failure: ParlanceError | None) -> float:
        """Return the seconds before the next attempt."""
        if self._next is not None:
            return 0.0
        least = failure.retry_after or 0.0 if failure is not None else 0.0
        if self.core.is_draining and self.core.is_over:
            least = max(least, self.core.retry_after)
        if self._reconnect is None:
            return least
        most = min(self._reconnect.max_delay, self._reconnect.min_delay * 2.0**self._attempts)
        self._attempts = min(self._attempts + 1, 30)
        return least + most * random.random()  # noqa: S311 - jitter, not a secret

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than the session has; a session that begins to close does not wait."""
        until = self._loop.time() + seconds
        was_stopping = self.is_stopping
        while self.is_stopping == was_stopping and not self._is_finished():
            now = self._loop.time()
            wait = min(until, self.core.due) - now
            if now >= until:
                return
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), max(0.0, wait) + 0.001)
            self._dispatch(self.core.handle_timeout(self._loop.time()))

    # --- one connection

    async def _carry(self, connection: ClientConnection, token: str | None) -> int:
        self._connection, self._leaving = connection, None
        self.core.open(self._loop.time(), token)
        writer = asyncio.create_task(self._write(connection))
        self._reschedule()
        code = errors.ABNORMAL
        try:
            core, loop, handle = self.core, self._loop, self._handle_event
            while True:
                data = await connection.recv()
                if self._leaving is not None:
                    continue
                for event in core.receive(data, loop.time()):
                    handle(event)
                self.wake()
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else errors.ABNORMAL
            if closed.rcvd is None and connection.close_code not in (None, errors.ABNORMAL):
                code = connection.close_code or code
        finally:
            self._connection = None
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            await connection.close()
        return self._leaving[0] if self._leaving is not None else code

    async def _write(self, connection: ClientConnection) -> None:
        core, loop, wake = self.core, self._loop, self._wake
        try:
            while True:
                frame = core.next_frame(loop.time())
                for event in core.take_events():
                    self._handle_event(event)
                if frame is not None:
                    await connection.send(frame)
                    continue
                self._tell_drained()
                self._reschedule()
                wake.clear()
                await wake.wait()
        except ConnectionClosed:
            pass

    def now(self) -> float:
        """Return the time by which the core counts."""
        return self._loop.time()

    def wake(self) -> None:
        """Something may have to be written."""
        self._wake.set()

    async def drained(self) -> None:
        """Wait until everything that may be written now is."""
        future = self._loop.create_future()
        self._drained.append(future)
        await future

    def _tell_drained(self) -> None:
        waiting, self._drained = self._drained, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _reschedule(self) -> None:
        """Set the timer to when the core has something to do."""
        due = self.core.due
        timer = self._timer
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timer = None if due == math.inf else self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._dispatch(self.core.handle_timeout(self._loop.time()))
        self.wake()
        self._reschedule()

    # --- events

    def _dispatch(self, events: list[Event]) -> None:
        for event in events:
            self._handle_event(event)

    def _handle_event(self, event: Event) -> None:
        match event:
            case Leave(code, reason):
                self._leave(code, reason)
            case Rejected(error):
                self._rejection = error
                self._spawn(self._wait_for_close(self._connection))
            case CredentialsEnd(within):
                self._renew_within(within)
            case MoveAsked(within):
                if self._move is None and self._moves < _MAX_MOVES:
                    self._moves += 1
                    self._move = self._spawn(self._open_next(within))
            case _:
                self._handle(event)

    def established(self) -> None:
        """The session has a connection again."""
        self.has_begun = True
        self._attempts = self._refused = 0

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _leave(self, code: int, reason: str = "") -> None:
        """Close the connection with this code; nothing that still arrives is read."""
        connection = self._connection
        if connection is not None and self._leaving is None:
            self._leaving = (code, reason)
            self._spawn(connection.close(code, reason))

    async def _wait_for_close(self, connection: ClientConnection | None) -> None:
        """After REJECT the server closes, with the code that says whether to come back."""
        if connection is not None:
            try:
                await asyncio.wait_for(connection.wait_closed(), _REJECT_PATIENCE)
            except TimeoutError:
                await connection.close(errors.NORMAL)

    # --- credentials

    def _renew_within(self, within: float | None) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        if within is not None and callable(self._token):
            self._renewal = self._spawn(self._renew(within))

    async def _renew(self, within: float) -> None:
        """Present new credentials before the present ones end; a function that fails is asked again."""
        ends = self._loop.time() + within
        await asyncio.sleep(max(within * _RENEW_AT, within - _RENEW_BEFORE))
        while True:
            try:
                token = await self._credentials()
            except ParlanceError:
                if self._loop.time() >= ends:
                    return
                await asyncio.sleep(max(0.1, min(5.0, (ends - self._loop.time()) / 2)))
                continue
            if token is not None and self.core.renew(token):
                self.wake()
            return

    # --- moving

    async def _open_next(self, within: float) -> None:
        """Open the connection over which the session is to continue, while the present one carries it (MOVE-1)."""
        try:
            await asyncio.sleep(within * random.random())  # noqa: S311 - jitter, not a secret
            while self.core.is_established:
                try:
                    self._next = await dial(self._url, self._limits, self._timers, self._socket_options)
                    break
                except ParlanceError:
                    await asyncio.sleep(1.0)
            # That code loses the connection and not the session (MOVE-2).
            self._leave(errors.GOING_AWAY)
        finally:
            self._move = None

    # --- the end

    def stop(self) -> None:
        """Do not connect again."""
        self.is_stopping = True
        self.wake()

    def detach(self) -> None:
        """Leave the session to the next process."""
        self.is_stopping = True
        self._leave(errors.DETACHED)

    async def _close(self) -> None:
        self._tell_drained()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._next is not None:
            await self._next.close()


def _ended(code: int) -> ParlanceError:
    error = ParlanceError("session_lost", f"the connection was closed with {code}", close_code=code)
    error.retryable = code in errors.COME_BACK
    return error
