"""Errors: a peer that breaks the protocol, a body that cannot be decoded, a request that fails (§14)."""

from __future__ import annotations

from typing import Any

CLOSE_NORMAL = 1000
CLOSE_BAD_FRAME = 4400
CLOSE_FORBIDDEN = 4403
CLOSE_TIMEOUT = 4408
CLOSE_TAKEN_OVER = 4409
CLOSE_STALE_ATTEMPT = 4410
CLOSE_TOO_LARGE = 4413

_TOO_LARGE = {
    "message_too_large",
    "metadata_too_large",
    "decompressed_too_large",
    "transfer_too_large",
    "window_exceeded",
    "json_too_deep",
    "array_too_long",
}


class ProtocolError(Exception):
    """An error with a code of §14. As a violation it ends the session; at a body it is answered in an error frame."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def close_code(self) -> int:
        return CLOSE_TOO_LARGE if self.code in _TOO_LARGE else CLOSE_BAD_FRAME

    @property
    def close_reason(self) -> str:
        """At most 123 bytes (ERR-2)."""
        return f"{self.code}: {self}".encode()[:123].decode(errors="ignore")


class RequestError(Exception):
    """A request failed: at the other end, or in a handler here (§4, error frames)."""

    def __init__(self, code: str, message: str, retryable: bool | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable

    @property
    def fields(self) -> dict[str, Any]:
        stated = {} if self.retryable is None else {"retryable": self.retryable}
        return {"code": self.code, "message": str(self), **stated}
