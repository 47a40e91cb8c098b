"""Server-sent events as the parts of a reply."""

from __future__ import annotations

from typing import Final

#: Ends a part that is no event: what is before it stands in the stream as it is.
_AS_IS: Final = b"\n:"
#: A part that begins with one of these consists of field lines.
_FIELDS: Final = (b"data:", b"event:", b"id:")
#: A comment: the source of the events lives.
_SIGN: Final = b":\n\n"


def is_event_stream(status: int, content_type: str) -> bool:
    """Whether a response is a stream of events: an error never is, even if its label says so."""
    return 200 <= status < 300 and content_type.split(";", 1)[0].strip().lower() == "text/event-stream"


def in_stream(part: bytes) -> bytes:
    """Return what stands in a stream of events for a part."""
    if not part:
        return _SIGN
    if part.endswith(_AS_IS):
        return part[: -len(_AS_IS)]
    if part.startswith(_FIELDS):
        return part + b"\n\n"
    return b"data: " + part.replace(b"\n", b"\ndata: ") + b"\n\n"
