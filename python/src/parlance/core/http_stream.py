"""A connection that consists of HTTP requests: which one is due, and what is in it (part 18)."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from .records import RecordReader, encode_close, encode_record

#: Bytes of frames for one request, except for the last frame.
MAX_GATHERED: Final = 64 * 1024
#: Bytes that may arrive before an acknowledgement is due at once: a quarter of what a server keeps for its client.
_MAX_UNACKNOWLEDGED: Final = 64 * 1024
#: Seconds in which an acknowledgement waits for a frame to go with.
_LAZY: Final = 1.0
_ACK: Final = 0x18


class HttpStream:
    """Takes the bytes of a response, and frames to send; returns frames, and the bodies of requests.

    Parameters
    ----------
    most : int
        The bytes of the longest frame of the server.
    """

    def __init__(self, most: int) -> None:
        self._reader = RecordReader(most)
        self._key: bytes | None = None
        self._number = 0
        self._queue: deque[bytes] = deque()
        #: Bytes of frames that wait.
        self.waiting = 0
        self._received = 0
        # The last frame that waits only acknowledges, and a later one takes its place.
        self._ends_in_ack = False
        self._ack_due = math.inf
        self._tail = b""
        self._is_posting = False
        #: The last request was taken out: nothing may follow it (HTTP-16).
        self.is_last = False

    @property
    def is_open(self) -> bool:
        """The server has sent the key."""
        return self._key is not None

    @property
    def closed(self) -> tuple[int, str] | None:
        """The close code and the reason of the server."""
        return self._reader.closed

    def receive(self, data: bytes) -> list[bytes]:
        """Take bytes of the response, and return the frames of the server.

        Raises
        ------
        ParlanceError
            `bad_frame`, `message_too_large`.
        """
        self._received += len(data)
        frames = self._reader.receive(data)
        if self._key is None and frames:
            self._key = frames.pop(0)
        return frames

    def push(self, frame: bytes, now: float) -> None:
        """Queue a frame."""
        if self._tail:
            return
        is_ack = frame[0] == _ACK
        if is_ack and self._ends_in_ack:
            self.waiting -= len(self._queue.pop())
        if is_ack:
            self._ack_due = min(self._ack_due, now + _LAZY)
        self._ends_in_ack = is_ack
        self._queue.append(frame)
        self.waiting += len(frame)

    def close(self, code: int, reason: str) -> None:
        """Close the connection behind the frames that wait."""
        self._tail = self._tail or encode_close(code, reason)

    @property
    def due(self) -> float:
        """When the next request may be made; infinity if there is none, or if one is under way."""
        if self._is_posting or self.is_last or self._key is None or not (self._queue or self._tail):
            return math.inf
        is_alone = self._ends_in_ack and len(self._queue) == 1 and not self._tail
        return self._ack_due if is_alone and self._received < _MAX_UNACKNOWLEDGED else -math.inf

    def next_request(self) -> bytes:
        """Return the body of the request that is due."""
        self._number += 1
        self._is_posting = True
        self._received = 0
        self._ack_due = math.inf
        body = bytearray(encode_record(self._number.to_bytes(4, "little") + (self._key or b"")))
        size = 0
        while self._queue and (size == 0 or size + len(self._queue[0]) <= MAX_GATHERED):
            frame = self._queue.popleft()
            size += len(frame)
            body += encode_record(frame)
        self.waiting -= size
        if not self._queue:
            self._ends_in_ack = False
            self.is_last = bool(self._tail)
            body += self._tail
        return bytes(body)

    def answered(self) -> None:
        """The request that was under way is taken."""
        self._is_posting = False
