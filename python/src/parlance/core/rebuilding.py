"""A link that takes the place of another one: after a restart of this process, or of the server's (part 6)."""

from __future__ import annotations

from .agreement import Agreement
from .durable import Log, read_kept
from .errors import ParlanceError
from .events import Event, StreamOver
from .link import Link
from .maps import Fields, Map
from .streams import Stream
from .ticket import Ticket

_MAX_CANCELLED = 4_096


def rebuild(ticket: Ticket, agreement: Agreement, rebuilt: Map) -> tuple[Log | None, int, tuple[int, ...]]:
    """Read what the server says of the session of a former process (extension `rebuild`).

    Returns
    -------
    log, last, interrupted
        The log of a durable session; the last stream of the former process, or -1; its requests that were stopped.

    Raises
    ------
    ParlanceError
        `bad_acceptance`, `bad_message`.
    """
    fields = Fields(rebuilt, "rebuilt")
    last = fields.whole("stream")
    interrupted = tuple(fields.wholes("cancelled", _MAX_CANCELLED))
    log = None
    if agreement.has("durable"):
        kept = read_kept(rebuilt)
        if kept is None or kept[1] or (ticket.have is not None and kept[0] < ticket.have.sent):
            raise ParlanceError("bad_acceptance", "the counts of a durable session do not fit")
        log = Log(kept[0])
    return log, last if last & 1 else -1, interrupted


def carry_over(former: Link, link: Link, log: Log, rebuilt: Map) -> list[Event]:
    """Continue the session with another process of the server, which has it from its record (DUR-4).

    Raises
    ------
    ParlanceError
        `bad_acceptance`, `bad_message`.
    """
    kept = read_kept(rebuilt)
    if kept is None:
        raise ParlanceError("bad_acceptance", "a rebuilt link without what is kept")
    handled, again = kept
    messages = log.again(handled, former.messages_written)
    link.messages_written = handled
    link.receiver.messages = former.receiver.messages
    for body in [*messages, *(body.renew() for body in former.messages.queue)]:
        link.send(body)
    events: list[Event] = []
    for stream in former.streams:
        if stream.id:
            events += _carry_stream_over(link, stream, stream.id in again)
    for stream in former.outbox.openings:
        link.outbox.push_opening(stream, stream.queue.popleft())
    return events


def _carry_stream_over(link: Link, stream: Stream, comes_again: bool) -> list[Event]:
    if not stream.is_own:
        stream.is_over = True  # its handler continues, and what it answers is dropped (DUR-6)
        return []
    if stream.is_tensor:
        stream.is_over = True
        return [StreamOver(stream, ParlanceError("interrupted", "the process of the server has died"))]
    request = stream.request or (stream.queue[0] if stream.queue else None)
    link.restart(stream)
    if comes_again and request is not None:
        stream.is_request_complete = False
        link.outbox.push(stream, request.renew())
    if stream.is_cancelled:
        stream.is_cancelled = False
        link.cancel(stream)
    return []
