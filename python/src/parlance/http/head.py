"""Heads of HTTP requests and responses, as the metadata of requests of the session and their replies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ..core.errors import ParlanceError
from ..core.wire import MAX_SAFE

#: Names in lower case.
Headers = dict[str, str]

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
WITHOUT_BODY: Final = frozenset({204, 205, 304})

_KEY: Final = "http"
_DEFAULT_METHOD: Final = "POST"
_MAX_PATH: Final = 2_048
_MAX_HEADERS: Final = 64
_MAX_VALUE: Final = 4_096
_METHOD: Final = re.compile(r"[A-Z]{1,16}")
_PATH: Final = re.compile(r"/[!-~]*")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
#: What a path and a query may have as it stands; the rest is percent-encoded.
_SAFE: Final = "/%?:@!$&'()*+,;=~[]|^`{}\\\"<>"

#: Credentials, and what is about an HTTP connection that does not exist.
_OMITTED: Final = frozenset(
    [
        *("authorization", "proxy-authorization", "cookie", "api-key", "x-api-key"),
        *("host", "origin", "referer", "connection", "content-length", "accept-encoding", "user-agent"),
        *("transfer-encoding", "keep-alive"),
    ]
)
_OF_SDKS: Final = "x-stainless-"
_ACCEPTED: Final = frozenset({"*/*"})
_ACCEPTED_BY_SDKS: Final = frozenset({"*/*", "application/json", "text/event-stream"})


def path_of(url: str) -> str:
    """Return the path of a URL with its query, as the session carries it.

    Raises
    ------
    ParlanceError
        `unsupported` if it is not a URL of HTTP, `invalid_argument`.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ParlanceError("invalid_argument", f"not a URL: {error}") from None
    if parts.scheme not in ("", "http", "https"):
        raise ParlanceError("unsupported", f"session.fetch does not support a URL of {parts.scheme}")
    path = quote(parts.path or "/", safe=_SAFE)
    if not path.startswith("/"):
        path = f"/{path}"
    return f"{path}?{quote(parts.query, safe=_SAFE)}" if parts.query else path


def join_headers(pairs: Iterable[tuple[str, str]]) -> Headers:
    """Return headers by their names in lower case; values of one name are joined by a comma."""
    headers: Headers = {}
    for given, value in pairs:
        name = given.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def headers_to_send(headers: Headers) -> Headers:
    """Return the headers that tell the other end something that it does not know."""
    accepted = _ACCEPTED_BY_SDKS if f"{_OF_SDKS}lang" in headers else _ACCEPTED
    return {
        name: value
        for name, value in headers.items()
        if not (
            name in _OMITTED
            or name.startswith(_OF_SDKS)
            or (name == "content-type" and value == "application/json")
            or (name == "accept" and value in accepted)
        )
    }


def encode_request(method: str, path: str, headers: Headers, upload: int | None = None) -> dict[str, Any]:
    """Return the metadata of a request.

    Parameters
    ----------
    upload : int, optional
        The ID of a body that the receiver is to ask for; without it, the body is that of the request.

    Raises
    ------
    ParlanceError
        `invalid_argument`.
    """
    if not _METHOD.fullmatch(method):
        raise ParlanceError("invalid_argument", "HTTP method: expected 1 to 16 capital letters")
    if len(path) > _MAX_PATH or not _PATH.fullmatch(path):
        expected = f'expected "/" and at most {_MAX_PATH} visible ASCII characters in all'
        raise ParlanceError("invalid_argument", f"HTTP path: {expected}")
    head: dict[str, Any] = {} if method == _DEFAULT_METHOD else {"method": method}
    # An end that knows of no uploads finds no path, and refuses the request.
    head |= {"path": path} if upload is None else {"upload": {"id": upload, "path": path}}
    if headers:
        head["headers"] = _checked(headers, "invalid_argument")
    return {_KEY: head}


def decode_response(metadata: Mapping[str, Any]) -> tuple[int, Headers] | None:
    """Return status and headers of a response; `None` if the metadata have none.

    Raises
    ------
    ParlanceError
        `bad_message`.
    """
    head = metadata.get(_KEY)
    if head is None:
        return None
    if type(head) is not dict:
        raise ParlanceError("bad_message", "http in the metadata: expected a map")
    status, headers = head.get("status"), head.get("headers")
    if type(status) is not int or not 200 <= status <= 599:
        raise ParlanceError("bad_message", "HTTP status: expected an integer from 200 to 599")
    if headers is None:
        return status, {}
    if type(headers) is not dict:
        raise ParlanceError("bad_message", "headers of http in the metadata: expected a map")
    return status, _checked(headers, "bad_message")


def decode_pull(metadata: Mapping[str, Any]) -> int | None:
    """Return the ID of the body that a request asks for; `None` for another request. 0 is never an ID."""
    head = metadata.get(_KEY)
    pull = head.get("pull") if type(head) is dict else None
    if pull is None:
        return None
    return pull if type(pull) is int and 0 < pull <= MAX_SAFE else 0


def _checked(headers: Mapping[str, Any], code: str) -> Headers:
    if len(headers) > _MAX_HEADERS:
        raise ParlanceError(code, f"{len(headers)} HTTP headers; at most {_MAX_HEADERS} can be sent")
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ParlanceError(code, 'HTTP header name: expected 1 to 64 of a-z, 0-9, ".", "_" and "-"')
        if type(value) is not str or len(value) > _MAX_VALUE or not _VALUE.fullmatch(value):
            expected = f"text without line ends, of at most {_MAX_VALUE} characters up to U+00FF"
            raise ParlanceError(code, f"HTTP header {name}: expected {expected}")
    return dict(headers)
