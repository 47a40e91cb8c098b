"""Control messages: one MessagePack map each (part 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .errors import ParlanceError
from .maps import Fields, Map, pack, unpack
from .wire import Buffer

MAX_BEFORE_ACCEPT: Final = 65_536
MAX_AFTER_ACCEPT: Final = 20_480
#: Types that only a client sends.
_OF_CLIENTS: Final = frozenset({"HELLO", "READY"})
_KNOWN: Final = frozenset({"ACCEPT", "REJECT", "WAIT", "AUTH", "GOAWAY", "PING", "PONG", "CLOSE"})


@dataclass(slots=True)
class Control:
    """A control message of the server."""

    type: str
    session_id: str | None
    timestamp: int
    payload: Map

    @property
    def fields(self) -> Fields:
        """The fields of the payload."""
        return Fields(self.payload, self.type)


def encode_control(kind: str, payload: Mapping[str, Any], *, session_id: str | None, unix_ms: int) -> bytes:
    """Write a control message; members that are `None` are left out."""
    message: dict[str, Any] = {"type": kind}
    if session_id is not None:
        message["session_id"] = session_id
    message["timestamp"] = unix_ms
    message["payload"] = {name: value for name, value in payload.items() if value is not None}
    return pack(message)


def decode_control(data: Buffer, most: int) -> Control | None:
    """Read a control message.

    Parameters
    ----------
    most : int
        The bytes that it may have (CTL-9).

    Returns
    -------
    Control or None
        `None` for a type that this version does not know, which is ignored (CTL-6).

    Raises
    ------
    ParlanceError
        `message_too_large`, `bad_message`, `protocol_violation` for a type that only clients send.
    """
    if len(data) > most:
        raise ParlanceError("message_too_large", f"a control message of {len(data)} bytes")
    value = unpack(data)
    fields = Fields(value, "envelope")
    kind = fields.text("type", MAX_BEFORE_ACCEPT)
    if kind is None:
        raise ParlanceError("bad_message", "a control message without a type")
    session_id = fields.text("session_id", 128)
    if value.get("timestamp") is None:
        raise ParlanceError("bad_message", f"{kind[:64]} without a timestamp")
    timestamp = fields.whole("timestamp")
    payload = fields.map("payload") or {}
    if kind in _OF_CLIENTS:
        raise ParlanceError("protocol_violation", f"{kind} from a server")
    if kind == "DATA":
        raise ParlanceError("protocol_violation", "DATA in m2m.v1")
    return Control(kind, session_id, timestamp, payload) if kind in _KNOWN else None


def rejection_of(control: Control) -> ParlanceError:
    """Return the error that REJECT stands for; without `retryable`, the close code that follows decides."""
    fields = control.fields
    code = fields.text("code", MAX_BEFORE_ACCEPT) or "UNKNOWN"
    message = fields.text("message", 1_024) or ""
    retry_after = fields.whole("retry_after_ms") / 1_000
    retryable = fields.flag("retryable") if control.payload.get("retryable") is not None else None
    error = ParlanceError("rejected", f"{code}: {message}" if message else code, retry_after=retry_after)
    error.data = {"code": code, "retryable": retryable}
    error.retryable = bool(retryable)
    return error
