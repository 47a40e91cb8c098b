"""A session in a thread of its own, for programs without an event loop."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from typing import Any

from ..client import connect
from ..core.errors import ParlanceError
from ..session import Session


class OwnThread:
    """Opens a session when it is first asked for.

    Parameters
    ----------
    url : str
    options : dict
        Of `connect`.
    """

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self._url = url
        self._options = options
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._session: Session | None = None
        self._is_closed = False
        self._process = 0
        self.loop: asyncio.AbstractEventLoop | None = None

    def session(self) -> Session:
        """Return the session, opened.

        Raises
        ------
        ParlanceError
            Errors of `connect`; `session_closed` after `close`.
        """
        with self._lock:
            if self._is_closed:
                raise ParlanceError("session_closed", "the transport is closed")
            if self.loop is None or self._process != os.getpid():
                # A forked process has neither the thread nor the connection of its parent.
                self._process, self._session = os.getpid(), None
                self.loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self.loop.run_forever, name="parlance session", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            if self._session is None or self._session.state == "closed":
                # The next request after a failure tries again.
                session = connect(self._url, **self._options)
                self._session = asyncio.run_coroutine_threadsafe(session.open(), self.loop).result()
            return self._session

    def close(self) -> None:
        """Close the session, and end the thread."""
        with self._lock:
            self._is_closed = True
            loop, self.loop = self.loop, None
            if loop is None or self._thread is None or self._process != os.getpid():
                return
            atexit.unregister(self.close)
            if self._session is not None:
                asyncio.run_coroutine_threadsafe(self._session.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()
