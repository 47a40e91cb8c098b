"""A transport of `httpx2`: `AsyncOpenAI(http_client=httpx2.AsyncClient(transport=HttpTransport(session)))`."""

from __future__ import annotations

import httpx2

from .http.transport import ResponseBody, Transport


class _Body(ResponseBody, httpx2.AsyncByteStream, httpx2.SyncByteStream):
    """The body of a response."""


class HttpTransport(Transport, httpx2.AsyncBaseTransport, httpx2.BaseTransport):
    """A transport of `httpx2` whose requests travel in a session; see `parlance.http.transport.Transport`."""

    _library = httpx2
    _body = _Body


__all__ = ["HttpTransport"]
