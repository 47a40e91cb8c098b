"""The events of the core for the layer above."""

from __future__ import annotations

from dataclasses import dataclass

from .agreement import Agreement
from .errors import ParlanceError
from .streams import Stream


@dataclass(slots=True)
class ReceivedBody:
    """A body that has arrived whole.

    Attributes
    ----------
    codec : int
    data : bytes or bytearray
        Coded, unless `content` is there.
    content : bytes or None
        The decoded content of a body in context.
    expanded : int or None
        The length of the content, as the frame states it.
    metadata : bytes or None
        A MessagePack map, unread.
    sender : str or None
        The agent that has sent it.
    charge : int
        Credit to give back by `consume` when the application has read it.
    """

    codec: int
    data: bytes
    content: bytes | None
    expanded: int | None
    metadata: bytes | None
    secret: bool
    sender: str | None
    charge: int


@dataclass(slots=True)
class MessageReceived:
    """A one-way message."""

    body: ReceivedBody


@dataclass(slots=True)
class RequestReceived:
    """A request of the server or of another agent, which has to be answered."""

    stream: Stream
    body: ReceivedBody


@dataclass(slots=True)
class TensorReceived:
    """A tensor that is whole: accept or refuse it with `Link.answer_tensor`."""

    stream: Stream
    head: bytes
    payload: bytearray
    crc: int | None
    sender: str | None


@dataclass(slots=True)
class RequestCancelled:
    """The opener has given up; its request still has to be answered, with `end`."""

    stream: Stream


@dataclass(slots=True)
class PartReceived:
    """A part of a reply; with metadata and no bytes it is none."""

    stream: Stream
    body: ReceivedBody


@dataclass(slots=True)
class ResponseReceived:
    """A whole reply."""

    stream: Stream
    body: ReceivedBody


@dataclass(slots=True)
class StreamOver:
    """The end of a reply in parts, or of a request that has failed."""

    stream: Stream
    error: ParlanceError | None


@dataclass(slots=True)
class Established:
    """A connection carries the session.

    Attributes
    ----------
    is_new : bool
        A session begins; else it continues.
    is_rebuilt : bool
        It continues from what a former process has stored.
    """

    agreement: Agreement
    is_new: bool
    is_rebuilt: bool


@dataclass(slots=True)
class SessionReset:
    """The loss of the session itself, or of some of its calls and messages.

    Attributes
    ----------
    code : str
        `unknown_session`, `other_offer`, `no_state`, `goaway` (the server was shut down), `reloaded`, `record_behind`,
        or a close code.
    not_sent, unknown : int
        One-way messages of which nothing was written, and those that may have arrived.
    interrupted : tuple of int
        Requests of a former process that the server has stopped.
    """

    code: str
    not_sent: int = 0
    unknown: int = 0
    interrupted: tuple[int, ...] = ()


@dataclass(slots=True)
class DrainBegins:
    """The server drains: no request begins in this session any more."""


@dataclass(slots=True)
class MoveAsked:
    """The server asks to continue over another connection after at most `within` seconds."""

    within: float


@dataclass(slots=True)
class CredentialsEnd:
    """Credentials of this connection end in so many seconds; `None` if they do not."""

    within: float | None


@dataclass(slots=True)
class Rejected:
    """The server has refused HELLO, or ends the session by REJECT."""

    error: ParlanceError


@dataclass(slots=True)
class PeerCloses:
    """The server has sent CLOSE."""

    reason: str
    message: str
    code: str | None


@dataclass(slots=True)
class Leave:
    """The connection has to be closed with this code."""

    code: int
    reason: str = ""


Event = (
    MessageReceived
    | RequestReceived
    | TensorReceived
    | RequestCancelled
    | PartReceived
    | ResponseReceived
    | StreamOver
    | Established
    | SessionReset
    | DrainBegins
    | MoveAsked
    | CredentialsEnd
    | Rejected
    | PeerCloses
    | Leave
)
