"""Connects, reads, writes, and connects again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Callable
from typing import Any, Final

from websockets.exceptions import ConnectionClosed

from .core import errors
from .core.errors import ParlanceError
from .core.events import CredentialsEnd, Event, Leave, MoveAsked, Rejected
from .core.session import SessionCore
from .credentials import Credentials
from .options import Reconnect
from .transports.dialer import Connection, Dialer, name_of
from .transports.order import PATIENCE

_log: Final = logging.getLogger("parlance")
#: How long after REJECT the close code may take.
_REJECT_PATIENCE: Final = 5.0
#: A connection that is lost sooner is followed by delays that grow, and the longest of them, in seconds.
_SHORT_LIFE: Final = 5.0
_SHORT_LIFE_DELAY: Final = 2.0
#: How often a session follows a server that asks it to move; an honest one asks once for each node.
_MAX_MOVES: Final = 8
#: Bytes of frames that are written together.
_GATHERED: Final = 65_536
#: The events that are the driver's.
_OWN: Final = (Leave, Rejected, CredentialsEnd, MoveAsked)
#: Seconds after which a WebSocket is tried beside a session over HTTP, each counted from the one before.
_PROBES: Final = (30.0, 90.0, 480.0)


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
        dialer: Dialer,
        *,
        credentials: Credentials,
        reconnect: Reconnect | None,
        handle: Callable[[Event], None],
    ) -> None:
        self.core = core
        self._dialer = dialer
        self._credentials = credentials
        self._reconnect = reconnect
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        #: Something may have to be written.
        self.wake = self._wake.set
        self._drained: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._connection: Connection | None = None
        self._leaving: tuple[int, str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._rejection: ParlanceError | None = None
        self._attempts = 0
        self._opened_at: float | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._next: Connection | None = None
        self._move: asyncio.Task[None] | None = None
        self._moves = 0
        self._probing: asyncio.Task[None] | None = None
        self._probes = 0
        #: The transport of the present connection, or of the last one.
        self.transport = ""
        self._is_answered = False
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
        ready, self._next = self._next, None
        try:
            token = await self._token()
        except ParlanceError as error:
            if ready is not None:
                await ready.close(errors.TIMEOUT)
            return errors.ABNORMAL, error
        order, failure = self._dialer.order, None
        names = order.turns(self._loop.time(), ready=None if ready is None else name_of(ready))
        for name in names:
            has_other = name != names[-1]
            if failure is not None:
                order.passed_over(self._loop.time())
            try:
                connection = ready or await self._dialer.open(name, soon=has_other)
            except ParlanceError as error:
                # Why the first one has not opened says most.
                failure = failure or error
                continue
            ready = None
            if self._is_finished():
                await connection.close()
                break
            opened = self._loop.time()
            code = await self._carry(connection, token, PATIENCE if has_other else None)
            if self._is_answered or not has_other or self._is_finished():
                if code == errors.ABNORMAL:
                    order.lost(name, self._loop.time() - opened)
                return code, self._rejection or (None if self._is_answered else failure)
            failure = ParlanceError("connection_failed", f"no answer over {name} within {PATIENCE:g} s")
            self._dispatch(self.core.lost(self._loop.time(), errors.ABNORMAL))
        return errors.ABNORMAL, failure

    async def _token(self) -> str | None:
        """Ask for credentials, for no longer than the session has. A function that does not answer has failed."""
        asking = asyncio.create_task(self._credentials.get())
        asking.add_done_callback(lambda _: self._wake.set())
        try:
            await self._pause(self._credentials.within, asking.done)
            if asking.done():
                return asking.result()
        finally:
            asking.cancel()
        message = f"the option token has not answered within {self._credentials.within:g} s"
        raise ParlanceError("connection_failed", message, retryable=True)

    def _comes_back(self, code: int, failure: ParlanceError | None, began: float) -> bool:
        """Whether to connect again; if not, `_end` says why."""
        core = self.core
        if self._next is not None:
            return True
        if self._is_finished():
            return False
        if core.is_followed and failure is None:
            self._end = core.loss
            return self._reconnect is not None
        self._end = failure or _ended(code)
        asks_again = code == errors.UNAUTHENTICATED and self._credentials.may_ask_again()
        if failure is not None:
            self._describe(failure, code)
        may_return = self._end.retryable or asks_again or (failure is None and code == errors.STALE_ATTEMPT)
        if self._reconnect is None or not may_return:
            return False
        if not self.has_begun and self._loop.time() - began >= self._reconnect.connect_within:
            return False
        _log.log(logging.INFO if self._attempts else logging.WARNING, "%s; trying again", self._end.message)
        return True

    def _is_finished(self) -> bool:
        """Whether the session was closed, left to the next process, or has failed."""
        core = self.core
        is_closed = core.is_over and not core.closing.is_open and not core.is_followed
        is_left = self.is_stopping and (core.ticket is None or core.closing.is_open)
        if is_closed or is_left or core.end is not None:
            self._end = core.end
            return True
        return False

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
        if self._opened_at is not None:
            # A connection that is lost sooner may be lost each time; and its user may have cut it.
            is_short = self._loop.time() < self._opened_at + _SHORT_LIFE
            doublings = int(math.log2(max(1.0, _SHORT_LIFE_DELAY / self._reconnect.min_delay)))
            self._attempts = min(self._attempts, doublings) if is_short else 0
            self._opened_at = None
        most = min(self._reconnect.max_delay, self._reconnect.min_delay * 2.0**self._attempts)
        self._attempts = min(self._attempts + 1, 30)
        return least + most * random.random()  # noqa: S311 - jitter, not a secret

    async def _pause(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Wait, but no longer than the session has; a session that begins to close does not wait."""
        until = self._loop.time() + seconds
        was_stopping = self.is_stopping
        while self.is_stopping == was_stopping and not self._is_finished() and not is_over():
            now = self._loop.time()
            wait = min(until, self.core.due) - now
            if now >= until:
                return
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), max(0.0, wait) + 0.001)
            self._dispatch(self.core.handle_timeout(self._loop.time()))

    # --- one connection

    async def _carry(self, connection: Connection, token: str | None, patience: float | None) -> int:
        self._connection, self._leaving = connection, None
        self._is_answered = False
        silence = patience and self._loop.call_later(patience, self._leave, errors.TIMEOUT)
        self.core.open(self._loop.time(), token)
        writer = asyncio.create_task(self._write(connection))
        self._reschedule()
        code = errors.ABNORMAL
        try:
            core, loop, handle, wake = self.core, self._loop, self._handle_event, self._wake.set
            while True:
                for data in await connection.recv_all():
                    if self._leaving is not None:
                        break
                    if not self._is_answered:
                        self._answered(connection)
                        if silence:
                            silence.cancel()
                    for event in core.receive(data, loop.time()):
                        handle(event)
                wake()
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else errors.ABNORMAL
            if closed.rcvd is None and connection.close_code not in (None, errors.ABNORMAL):
                code = connection.close_code or code
        finally:
            self._connection = None
            if silence:
                silence.cancel()
            if self._probing is not None:
                self._probing.cancel()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            # The server may have read HELLO: another code would end the session.
            await connection.close(errors.TIMEOUT if self.is_left_in_store else errors.NORMAL)
        if not writer.cancelled():
            writer.result()
        return self._leaving[0] if self._leaving is not None else code

    def _answered(self, connection: Connection) -> None:
        """The first message of the server is there."""
        self._is_answered = True
        self.transport = name_of(connection)
        self._dialer.order.answered(self.transport)
        if self.transport == "http" and "websocket" in self._dialer.order.names:
            self._probing = self._spawn(self._probe())

    async def _write(self, connection: Connection) -> None:
        core, loop, wake = self.core, self._loop, self._wake
        frames: list[bytes] = []
        size = 0
        try:
            while True:
                frame = core.next_frame(loop.time())
                for event in core.take_events():
                    self._handle_event(event)
                if frame is not None:
                    frames.append(frame)
                    size += len(frame)
                if frames and (frame is None or size >= _GATHERED):
                    await connection.send_all(frames)
                    frames, size = [], 0
                    continue
                if frame is not None:
                    continue
                self._tell_drained()
                self._reschedule()
                wake.clear()
                await wake.wait()
        except ConnectionClosed:
            pass
        except Exception:
            self._leave(errors.INTERNAL)
            raise

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
        if not isinstance(event, _OWN):
            self._handle(event)
            return
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

    def established(self) -> None:
        """The session has a connection again."""
        self.has_begun = True
        self._credentials.refused = 0
        self._opened_at = self._loop.time()

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

    async def _wait_for_close(self, connection: Connection | None) -> None:
        """After REJECT the server closes, with the code that says whether to come back."""
        if connection is not None:
            try:
                await asyncio.wait_for(connection.wait_closed(), _REJECT_PATIENCE)
            except TimeoutError:
                self._leave(errors.TIMEOUT)

    # --- credentials

    def _renew_within(self, within: float | None) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        if within is not None and self._credentials.is_renewable:
            self._renewal = self._spawn(self._credentials.renew(within, self._present))

    def _present(self, token: str) -> None:
        if self.core.renew(token):
            self.wake()

    # --- moving

    async def _open_next(self, within: float) -> None:
        """Open the connection over which the session is to continue, while the present one carries it (MOVE-1)."""
        try:
            await asyncio.sleep(within * random.random())  # noqa: S311 - jitter, not a secret
            while self.core.is_established:
                try:
                    self._next = await self._dialer.open(self._dialer.order.names[0])
                    break
                except ParlanceError:
                    await asyncio.sleep(1.0)
            # That code loses the connection and not the session (MOVE-2).
            self._leave(errors.GOING_AWAY)
        finally:
            self._move = None

    async def _probe(self) -> None:
        """Look for a WebSocket beside a session over HTTP, and move the session to it."""
        for gap in _PROBES[self._probes :]:
            await asyncio.sleep(gap)
            self._probes += 1
            with contextlib.suppress(ParlanceError):
                connection = await self._dialer.open("websocket", soon=True)
                if self._next is None and self.core.is_established and self.core.ticket is not None:
                    self._next = connection
                    self._leave(errors.GOING_AWAY)
                    return
                await connection.close()

    # --- the end

    @property
    def is_left_in_store(self) -> bool:
        """Whether the session of a former process was not taken up, and waits for the next attempt."""
        return not self.has_begun and self.core.ticket is not None

    def stop(self) -> None:
        """Do not connect again."""
        self.is_stopping = True
        self.wake()

    def detach(self) -> None:
        """Leave the session to the next process."""
        self.stop()
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
