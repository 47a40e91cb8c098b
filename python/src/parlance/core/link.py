"""The link: messages, requests and replies of one session in frames that both ends count (part 4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from . import frames
from .agreement import Agreement
from .context import ContextEncoder
from .errors import ParlanceError
from .events import Event, RequestCancelled, StreamOver
from .frames import ACK, CANCEL, CHUNK, CREDIT, END, ERROR, MESSAGE, REQUEST
from .limits import Limits
from .outbox import Body, Outbox, is_last_of
from .receiver import Receiver
from .streams import ReceiveCredit, Stream, StreamTable
from .wire import read_varint

#: A receiver acknowledges after so many frames, bytes or seconds, whichever is first (ACK-1).
_ACK_FRAMES: Final = 32
_ACK_BYTES: Final = 65_536
_ACK_DELAY: Final = 0.2


class Link:
    """One link. A rebuilt one takes its place with new counts and the same stream IDs (REB-2, REB-3).

    Parameters
    ----------
    before_ack : callable, optional
        Called with the count before it is acknowledged: what a later process needs to know has to be stored then.
    last : tuple of int
        The last stream IDs of both ends.
    """

    def __init__(
        self,
        agreement: Agreement,
        limits: Limits,
        *,
        before_ack: Callable[[int], None] | None = None,
        last: tuple[int, int] = (-1, 0),
    ) -> None:
        self.agreement = agreement
        self._limits = limits
        self._before_ack = before_ack
        peer = agreement.link
        self.messages = Stream(0, peer.message_window, limits.message_window, limits.message_window, is_own=True)
        self.streams = StreamTable(self.messages, max_own=agreement.max_streams, max_peer=limits.max_streams, last=last)
        context = agreement.context
        encoder = ContextEncoder(*context) if context is not None else None
        self.outbox = Outbox(self.streams, agreement, encoder, self)
        self.credit = ReceiveCredit(self._grant)
        self.receiver = Receiver(self, limits)
        self.received = 0
        self._unacked_frames = self._unacked_bytes = 0
        self._ack_due = math.inf
        #: Own one-way messages that were written to their end.
        self.messages_written = 0
        #: Called when the last frame of an own message or request is written.
        self.on_written: Callable[[Stream, Body], None] | None = None

    # --- input

    def receive(self, data: bytes, now: float) -> Event | None:
        """Take a link frame.

        Raises
        ------
        ParlanceError
            Anything that ends the session.
        """
        kind = data[0]
        if kind >= ACK:
            self._receive_uncounted(kind, data)
            return None
        event = self.receiver.receive(kind, data)
        self._note(len(data), now)
        return event

    def _note(self, size: int, now: float) -> None:
        self.received += 1
        self._unacked_frames += 1
        self._unacked_bytes += size
        if self._unacked_frames >= _ACK_FRAMES or self._unacked_bytes >= _ACK_BYTES:
            self.acknowledge()
        elif self._ack_due == math.inf:
            self._ack_due = now + _ACK_DELAY

    def _receive_uncounted(self, kind: int, data: bytes) -> None:
        number, at = read_varint(data, 1)
        if kind == ACK:
            if at != len(data):
                raise ParlanceError("trailing_bytes", "bytes after a count")
            self.confirm(number)
            return
        if kind != CREDIT:
            raise ParlanceError("bad_frame", f"unknown kind {kind:#x}")
        limit, at = read_varint(data, at)
        if at != len(data):
            raise ParlanceError("trailing_bytes", "bytes after a limit of credit")
        stream = self.streams.get(number)
        if stream is None:
            if not self.streams.was_opened(number):
                raise ParlanceError("bad_frame", f"credit for stream {number}, which was never opened")
        elif limit > stream.send_limit:
            stream.send_limit = limit
            self.outbox.wake(stream)

    # --- commands

    def send(self, body: Body) -> None:
        """Send a one-way message."""
        self.outbox.push(self.messages, body)

    def open(self, body: Body, tag: Any) -> Stream:
        """Send a request; it begins when a stream is free and the rate allows it."""
        limits, peer = self._limits, self.agreement.link
        stream = Stream(0, peer.stream_window, limits.stream_window, limits.stream_window, is_own=True, tag=tag)
        self.outbox.push_opening(stream, body)
        return stream

    def restart(self, stream: Stream) -> None:
        """Take a stream of this end over from a former link, with its number and new credit."""
        stream.sent = stream.received = stream.consumed = stream.body_start = 0
        stream.send_limit, stream.receive_limit = self.agreement.link.stream_window, self._limits.stream_window
        stream.assembly = None
        stream.queue.clear()
        stream.is_ready = stream.is_blocked = False
        self.streams.open_own(stream, stream.id)

    def take_over(self, former: Link, *, with_messages: bool) -> None:
        """Send what a former session has not begun: requests, and messages that may move."""
        for body in former.messages.queue:
            if body.at < 0 and (body.retry or with_messages):
                self.send(body)
        for stream in former.outbox.openings:
            stream.send_limit = self.agreement.link.stream_window
            self.outbox.push_opening(stream, stream.queue.popleft())

    def fail_streams(self, error: ParlanceError, *, with_openings: bool) -> list[Event]:
        """End all streams: requests of this end fail, and those of the peer are stopped."""
        events: list[Event] = []
        for stream in self.streams:
            if stream.id == 0:
                continue
            self.forget(stream)
            if not stream.is_own:
                stream.is_cancelled = True
                events.append(RequestCancelled(stream))
            elif not stream.is_cancelled:
                events.append(StreamOver(stream, error))
        while with_openings and self.outbox.openings:
            stream = self.outbox.openings.popleft()
            stream.is_over = True
            events.append(StreamOver(stream, error))
        return events

    def part(self, stream: Stream, body: Body) -> None:
        """Send a part of a reply, or metadata of it."""
        if not stream.is_answered and not stream.is_over:
            self.outbox.push(stream, body)

    def respond(self, stream: Stream, body: Body) -> None:
        """Answer a request by one body; by END if it was cancelled."""
        if stream.is_cancelled:
            self.end(stream)
        elif not stream.is_answered and not stream.is_over:
            stream.is_answered = True
            self.outbox.push(stream, body)

    def end(self, stream: Stream) -> None:
        """Answer a request by the end of its parts."""
        self._finish(stream, Body(END))

    def fail(self, stream: Stream, error: BaseException) -> None:
        """Answer a request by an error; by END if it was cancelled."""
        self._finish(stream, Body(END) if stream.is_cancelled else Body(ERROR, frames.error_map(error)))

    def _finish(self, stream: Stream, body: Body) -> None:
        if stream.is_answered or stream.is_over:
            return
        stream.is_answered = True
        if stream.is_cancelled:
            self.outbox.clear(stream)
        self.outbox.push(stream, body)

    def cancel(self, stream: Stream) -> None:
        """Give a request of this end up."""
        if stream.is_over or stream.is_cancelled:
            return
        stream.is_cancelled = True
        self.outbox.clear(stream)
        if stream.id == 0:
            stream.is_over = True
            return
        self.outbox.push_signal(frames.signal_frame(CANCEL, stream.id), stream.id)

    def consume(self, stream: Stream, charge: int) -> None:
        """Note that the application has read a body."""
        self.credit.consume(stream, charge)

    def handle_written(self, stream: Stream, body: Body) -> None:
        """Note that the last frame of a body, END or ERROR is written."""
        kind = body.kind
        if kind <= REQUEST:
            if kind == MESSAGE:
                self.messages_written += 1
            else:
                stream.is_request_complete = True
            if self.on_written is not None:
                self.on_written(stream, body)
        elif kind != CHUNK and (stream.is_request_complete or stream.assembly is None):
            self.forget(stream)

    def forget(self, stream: Stream) -> None:
        """Note that a stream is over."""
        self.streams.close(stream)
        self.credit.forget(stream)

    # --- acknowledgement

    def _grant(self, stream: Stream) -> None:
        self.outbox.push_control(frames.credit_frame(stream.id, stream.receive_limit))

    def acknowledge(self) -> None:
        """Acknowledge what has arrived."""
        if self._before_ack is not None:
            self._before_ack(self.received)
        self.outbox.push_control(frames.count_frame(self.received))
        self._unacked_frames = self._unacked_bytes = 0
        self._ack_due = math.inf

    @property
    def owes_acknowledgement(self) -> bool:
        """Whether something has arrived that is not acknowledged."""
        return self._unacked_frames > 0

    def confirm(self, count: int) -> None:
        """The peer has received so many counted frames (ACK-2, ACK-3).

        Raises
        ------
        ParlanceError
            `bad_frame`.
        """
        if count > self.outbox.written:
            raise ParlanceError("bad_frame", f"{count} frames acknowledged, {self.outbox.written} were sent")
        self.outbox.confirm(count)

    def resume(self, received: int) -> None:
        """Continue on a new connection, whose peer has received so many counted frames.

        Raises
        ------
        ParlanceError
            `bad_frame` (RES-8).
        """
        if received < self.outbox.acknowledged:
            raise ParlanceError("bad_frame", f"{received} frames received, more were acknowledged before")
        self.confirm(received)
        self.outbox.begin_connection(replays=True)
        for stream in self.streams:
            if stream.received:
                self._grant(stream)
        self.acknowledge()

    # --- time and state

    @property
    def due(self) -> float:
        """When `handle_timeout` has something to do."""
        return min(self._ack_due, self.outbox.pace.due)

    def handle_timeout(self, now: float) -> None:
        """Acknowledge if that is due."""
        if now >= self._ack_due:
            self.acknowledge()

    @property
    def is_acknowledged(self) -> bool:
        """Whether the peer has everything that was sent."""
        return not self.outbox.unacknowledged and self.outbox.is_empty and not self.outbox.openings

    def undelivered_messages(self) -> tuple[int, int]:
        """Return the one-way messages of which nothing was written, and those that may have arrived."""
        begun = sum(body.at >= 0 for body in self.messages.queue)
        waiting = sum(not body.retry for body in self.messages.queue) - begun
        unknown = sum(is_last_of(frame, MESSAGE) for frame in self.outbox.unacknowledged)
        return waiting, unknown + begun
