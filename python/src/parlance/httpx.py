"""A transport of `httpx`: `AsyncOpenAI(http_client=httpx.AsyncClient(transport=HttpTransport(session)))`."""

from __future__ import annotations

import httpx

from .http.transport import ResponseBody, Transport


class _Body(ResponseBody, httpx.AsyncByteStream, httpx.SyncByteStream):
    """The body of a response."""


class HttpTransport(Transport, httpx.AsyncBaseTransport, httpx.BaseTransport):
    """A transport of `httpx` whose requests travel in a session; see `parlance.http.transport.Transport`."""

    _library = httpx
    _body = _Body


__all__ = ["HttpTransport"]
