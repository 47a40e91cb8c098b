"""Events by name, with an acknowledgement: a use of requests."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Any, Final
from weakref import WeakKeyDictionary

from .codecs.coder import content_of
from .core.agreement import Agreement
from .core.errors import ParlanceError, RequestError
from .messages import Message

#: Handles an event: it gets its data, and the message itself.
EventHandler = Callable[[Any, Message], object]

_EVENT: Final = "event"
_EVENT_ID: Final = "eventId"
_MAX_ID: Final = 64
#: Events that are remembered, so that one that comes again is not handled again.
_MAX_REMEMBERED: Final = 256
_NAME: Final = re.compile(r"[A-Za-z0-9$_.-]{1,64}")
#: What an end answers that knows no events.
_OTHERS: Final = frozenset({"unsupported", "unknown_procedure"})

# No secret: it tells the events of this process from those of the one before.
_prefix: Final = secrets.token_hex(6)
_numbers: Final = itertools.count(1)


def event_metadata(name: str, agreement: Agreement) -> dict[str, Any]:
    """Return the metadata that name an event; one of a durable session has an ID.

    Raises
    ------
    ParlanceError
        `invalid_argument`.
    """
    check_name(name)
    return {_EVENT: name, **({_EVENT_ID: f"{_prefix}-{next(_numbers)}"} if agreement.has("durable") else {})}


def check_name(name: str) -> None:
    """Refuse what cannot name an event.

    Raises
    ------
    ParlanceError
        `invalid_argument`.
    """
    if not _NAME.fullmatch(name):
        expected = "1 to 64 letters, digits, $, _, - and . name an event"
        raise ParlanceError("invalid_argument", f"{expected}, and not {name!r}")


def event_body(data: object) -> bytes:
    """Return the data of an event as JSON; nothing for `None`.

    Raises
    ------
    ParlanceError
        `invalid_argument`, `lone_surrogate`.
    """
    if data is None:
        return b""
    # A text is JSON here, too.
    return content_of([data]).data[1:-1]


def failure_of(name: str, error: ParlanceError) -> ParlanceError:
    """Return what `emit` raises for an error of its request."""
    return unhandled(name) if error.code in _OTHERS else error


def may_come_again(error: ParlanceError, metadata: Mapping[str, Any]) -> bool:
    """Whether the process that had an event of a durable session died before it was handled."""
    return error.code == "interrupted" and not isinstance(error, RequestError) and _EVENT_ID in metadata


def unhandled(name: str) -> RequestError:
    """Return the error of an event without a handler."""
    return RequestError("unhandled", f"nothing handles the event {name[:_MAX_ID]!r}")


def is_acknowledged(name: str, answer: Message) -> bool:
    """Whether an end that knows events has answered."""
    return answer.metadata.get(_EVENT) == name


class Events:
    """The handlers of one session, and what has become of events that may come again."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[EventHandler]] = {}
        self._remembered: OrderedDict[str, asyncio.Future[None]] = OrderedDict()

    def add(self, name: str, handler: EventHandler) -> Callable[[], None]:
        """Add a handler, and return what removes it."""
        check_name(name)
        handlers = self._handlers.setdefault(name, [])
        handlers.append(handler)

        def remove() -> None:
            if handler in handlers:
                handlers.remove(handler)

        return remove

    def answers(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a request is an event. Without handlers, its metadata may mean something else to the application."""
        return bool(self._handlers) and isinstance(metadata.get(_EVENT), str)

    async def answer(self, message: Message) -> bytes:
        """Handle an event, unless it was handled already.

        Raises
        ------
        RequestError
            `unhandled`, and what a handler raises.
        """
        name, number = message.metadata[_EVENT], message.metadata.get(_EVENT_ID)
        if not isinstance(number, str) or len(number) > _MAX_ID:
            await self._handle(name, message)
            return b""
        outcome = self._remembered.get(number)
        if outcome is None:
            outcome = self._remembered[number] = asyncio.ensure_future(self._handle(name, message))
            outcome.add_done_callback(lambda done: self._settled(number, done))
            if len(self._remembered) > _MAX_REMEMBERED:
                self._remembered.popitem(last=False)
        await outcome
        return b""

    def _settled(self, number: str, outcome: asyncio.Future[None]) -> None:
        """An event whose handler was stopped has not been handled."""
        if outcome.cancelled():
            self._remembered.pop(number, None)
        else:
            outcome.exception()

    async def _handle(self, name: str, message: Message) -> None:
        handlers = list(self._handlers.get(name, ()))
        if not handlers:
            raise unhandled(name)
        data = message.json() if message.bytes else None
        results = await asyncio.gather(
            *(_called(handler, data, message) for handler in handlers), return_exceptions=True
        )
        for result in results:
            if result is not None:
                raise result


async def _called(handler: EventHandler, data: object, message: Message) -> None:
    result = handler(data, message)
    if isawaitable(result):
        await result


_events: Final[WeakKeyDictionary[object, Events]] = WeakKeyDictionary()


def events_of(session: object) -> Events:
    """Return the events of a session."""
    return _events.setdefault(session, Events())
