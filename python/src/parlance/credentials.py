"""The option `token`: credentials for each connection, and new ones before they end."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from .core.errors import ParlanceError
from .options import TokenSource

_log: Final = logging.getLogger("parlance")
#: How often a function is asked again for credentials that the server has refused.
_MAX_REFUSED: Final = 3
#: Credentials are renewed when so much of their time is over.
_RENEW_AT: Final = 0.7
_RENEW_BEFORE: Final = 60.0
_MAX_LENGTH: Final = 16 * 1024


class Credentials:
    """A token, or a function that is asked for one.

    Parameters
    ----------
    within : float
        Seconds that the function may take.
    """

    def __init__(self, source: TokenSource | None, *, within: float) -> None:
        self._source = source
        self.within = within
        self.is_renewable = callable(source)
        #: How often the server has refused them in a row.
        self.refused = 0

    def may_ask_again(self) -> bool:
        """Whether other credentials may be accepted after these were refused."""
        self.refused += 1
        return self.is_renewable and self.refused <= _MAX_REFUSED

    async def get(self) -> str | None:
        """Return the token for a connection.

        Raises
        ------
        ParlanceError
            `unauthenticated` if the function has failed, `invalid_option` for what is no token.
        """
        token: Any = self._source
        try:
            token = token() if callable(token) else token
            token = await token if inspect.isawaitable(token) else token
        except Exception as error:
            _log.warning("the function of the option token has failed: %r", error)
            raise ParlanceError("unauthenticated", f"the option token has failed: {error!r}", retryable=True) from error
        if token is not None and (not isinstance(token, str) or not 0 < len(token) <= _MAX_LENGTH):
            expected = f"a str of 1 to {_MAX_LENGTH} characters, or a function that returns one"
            raise ParlanceError("invalid_option", f"token: expected {expected}")
        return token

    async def renew(self, within: float, present: Callable[[str], None]) -> None:
        """Present new credentials before the present ones end; a function that fails is asked again.

        Parameters
        ----------
        within : float
            Seconds until they end.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + within
        await asyncio.sleep(max(within * _RENEW_AT, within - _RENEW_BEFORE))
        while True:
            try:
                token = await self.get()
            except ParlanceError:
                if loop.time() >= ends:
                    return
                await asyncio.sleep(max(0.1, min(5.0, (ends - loop.time()) / 2)))
                continue
            if token is not None:
                present(token)
            return
