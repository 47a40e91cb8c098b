"""The options that `connect` hands to a session, and the end that a session leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .codecs.m2m import Key
from .codecs.token_native import Vocabulary
from .core.errors import ParlanceError
from .core.events import Event, SessionReset
from .core.limits import Limits
from .core.session import SessionCore
from .driver import Driver
from .handlers import Handler


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """How a session has ended.

    Attributes
    ----------
    error : ParlanceError or None
        `None` if one of the two ends has closed it.
    code : str or None
        The word with which it was closed.
    reason : str
        For people.
    by_server : bool
    """

    error: ParlanceError | None = None
    code: str | None = None
    reason: str = ""
    by_server: bool = False


@dataclass(slots=True)
class Setup:
    """The options of `connect`, read and checked."""

    limits: Limits
    vocabulary: Vocabulary | None
    key: Key | None
    on_request: Handler | None
    on_reset: Callable[[SessionReset], object] | None
    make: Callable[[Callable[[Event], None]], tuple[SessionCore, Driver]]
    release: Callable[[bool], None]


OTHER_LOOP: Final = (
    "a session belongs to the event loop that opened it: another asyncio.run and a forked process connect again, and"
    " another thread uses asyncio.run_coroutine_threadsafe"
)


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop.

    Raises
    ------
    ParlanceError
        `unsupported` without one: in a thread of its own, or under trio.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ParlanceError("unsupported", f"no event loop of asyncio runs here; {OTHER_LOOP}") from None
