"""Errors: their codes, the close codes as which they travel, and whether trying again may help."""

from __future__ import annotations

import re
from typing import Any, Final

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
ABNORMAL: Final = 1006
BAD_FRAME: Final = 4400
UNAUTHENTICATED: Final = 4401
TIMEOUT: Final = 4408
STALE_ATTEMPT: Final = 4410
DETACHED: Final = 4411
TOO_LARGE: Final = 4413
INTERNAL: Final = 4500

#: Codes after which only the connection is lost, not the session (RES-1).
LOST_CONNECTION: Final = frozenset({1001, 1005, 1006, 1011, 1012, 1013, 1014, 4408})
#: Codes after which a client may come back by itself, if need be with a new session.
COME_BACK: Final = LOST_CONNECTION | {4429, 4500, 4503}

_CLOSE: Final = {
    "message_too_large": TOO_LARGE,
    "transfer_too_large": TOO_LARGE,
    "decompressed_too_large": TOO_LARGE,
    "json_too_deep": TOO_LARGE,
    "string_too_long": TOO_LARGE,
    "array_too_long": TOO_LARGE,
    "too_many_values": TOO_LARGE,
    "metadata_too_large": TOO_LARGE,
    "window_exceeded": TOO_LARGE,
    "over_budget": TOO_LARGE,
    "rate_limited": 4429,
    "unauthenticated": UNAUTHENTICATED,
    "forbidden": 4403,
    "timeout": TIMEOUT,
    "taken_over": 4409,
    "stale_attempt": STALE_ATTEMPT,
    "draining": 4503,
    "internal": INTERNAL,
    "codec_not_loaded": INTERNAL,
    "vocabulary_not_loaded": INTERNAL,
}
_RETRYABLE: Final = frozenset(
    [
        "over_budget",
        "too_many_streams",
        "rate_limited",
        "timeout",
        "fenced",
        "draining",
        "connection_failed",
        "codec_not_loaded",
        "vocabulary_not_loaded",
        "too_many_replies",
        "unknown_agent",
        "interrupted",
        "cancelled",
    ]
) - {"cancelled"}
#: Codes that a verdict about received data may have in an error frame (ERR-5).
_PROTOCOL_CODES: Final = (
    frozenset(
        [
            "bad_frame",
            "bad_message",
            "protocol_violation",
            "truncated",
            "trailing_bytes",
            "bad_varint",
            "bad_utf8",
            "bad_base64",
            "bad_json",
            "bad_compression",
            "bad_header",
            "bad_tensor",
            "bad_token",
            "bad_checksum",
            "bad_acceptance",
            "unknown_prefix",
            "unknown_schema",
            "unknown_security_mode",
            "unknown_version",
            "security_required",
            "authentication_failed",
            "rejected",
            "session_lost",
            "session_closed",
            "unsupported",
            "unrepresentable",
            "invalid_option",
            "invalid_argument",
            "unknown_reply",
            "gone",
            "reply_too_large",
            "peer_gone",
        ]
    )
    | frozenset(_CLOSE)
    | _RETRYABLE
    | {"cancelled"}
)
_APPLICATION_CODE: Final = re.compile(r"[a-z0-9_]{1,64}")


class ParlanceError(Exception):
    """An error of the protocol, of the connection, or of a call.

    Attributes
    ----------
    code : str
        Why, as one of the codes of `docs/protocol/errors.md`.
    message : str
        A sentence for people.
    retryable : bool
        Whether the same call may succeed later, unchanged.
    retry_after : float or None
        Seconds after which it may, if the other end has said so.
    data : object
        The value that the application of the other end has attached; `None` if there is none.
    close_code : int or None
        The close code with which the session or the connection has ended, if it has.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        retryable: bool | None = None,
        retry_after: float | None = None,
        data: Any = None,
        close_code: int | None = None,
    ) -> None:
        # `pickle` and `copy` make the error again from these.
        super().__init__(code, message)
        self.code = code
        self.message = message or code
        self.retryable = code in _RETRYABLE if retryable is None else retryable
        self.retry_after = retry_after
        self.data = data
        self.close_code = close_code

    def __str__(self) -> str:
        return self.code if self.message == self.code else f"{self.code}: {self.message}"


class RequestError(ParlanceError):
    """An error of an application: a handler raises it to answer a request with it, and its requester catches it.

    Parameters
    ----------
    code : str
        1 to 64 of `a-z`, `0-9` and `_`.
    message : str
        At most 1,024 bytes are sent.
    retryable : bool, default False
    retry_after : float, optional
        Seconds.
    data : object, optional
        Strict JSON of at most 8 KiB, as `json.dumps` writes it. Anything else is left out.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        data: Any = None,
    ) -> None:
        if not is_application_code(code):
            raise ParlanceError("invalid_argument", f"code: expected 1 to 64 of a-z, 0-9 and _, not {code!r}")
        super().__init__(code, message, retryable=retryable, retry_after=retry_after, data=data)


def is_application_code(code: object) -> bool:
    """Whether this is a word that an application may use as a code."""
    return isinstance(code, str) and _APPLICATION_CODE.fullmatch(code) is not None


def is_protocol_code(code: str) -> bool:
    """Whether the protocol itself uses this code."""
    return code in _PROTOCOL_CODES


def close_code_of(error: ParlanceError) -> int:
    """Return the code with which an error of received data ends the session."""
    return error.close_code or _CLOSE.get(error.code, BAD_FRAME)


def close_reason(error: ParlanceError) -> str:
    """Return `code: message`, cut to 123 bytes between characters (ERR-2)."""
    return f"{error.code}: {error.message}".encode()[:123].decode(errors="ignore")
