"""The checks of a receiver in the first frame of a body, and the names of alias frames."""

from __future__ import annotations

import re
from typing import Final

from . import frames
from .agreement import Agreement
from .errors import ParlanceError
from .frames import ADDRESSED, ALGORITHM_OF, AVP, CONTEXT, EXPANDING, META, MORE, PLAIN, REQUEST, SECRET, Head
from .limits import Limits
from .wire import read_varint, text_of

_MAX_NUMBER: Final = 255
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}|~[A-Za-z0-9_-]{1,127}|@[a-z]{1,32}")


class BodyRules:
    """The bodies that may arrive in a session (LINK-3 to LINK-13)."""

    def __init__(self, agreement: Agreement, limits: Limits) -> None:
        self._max_message = agreement.max_received_size
        self._max_metadata = limits.max_metadata_size
        codecs = {codec for codec, name in ALGORITHM_OF.items() if name in agreement.algorithms}
        if agreement.context is not None:
            codecs.add(CONTEXT)
        self._codecs = frozenset(codecs)
        #: Codecs that were agreed on and that may be the whole head of a body.
        self.bare = frozenset(codecs - EXPANDING - {CONTEXT})

    def read(self, kind: int, data: bytes, at: int) -> Head:
        """Read and check the head of a first frame.

        Raises
        ------
        ParlanceError
            `bad_frame`, `truncated`, `message_too_large`, `metadata_too_large`.
        """
        head = frames.read_head(data, at, self._max_metadata)
        length = len(data) - head.at
        flags, codec, total = head.flags, head.codec, head.total
        if codec == AVP:
            if kind != REQUEST or flags & META:
                raise ParlanceError("bad_frame", "a tensor travels in a request without metadata")
        elif codec not in self._codecs and (codec != PLAIN or length or total):
            raise ParlanceError("bad_frame", f"codec {codec} was not agreed on")
        if flags & ADDRESSED and kind > REQUEST:
            raise ParlanceError("bad_frame", "a reply with an address")
        if codec == CONTEXT and flags & SECRET:
            raise ParlanceError("bad_frame", "a secret body in context")
        if flags & MORE and length >= (total or 0):
            raise ParlanceError("bad_frame", "the first frame of a body holds all of it")
        if codec != AVP and max(total or 0, length, head.expanded or 0) > self._max_message:
            raise ParlanceError("message_too_large", f"a body above {self._max_message} bytes")
        return head


class AliasReader:
    """The names that the server has announced."""

    def __init__(self, agreement: Agreement) -> None:
        self._names: dict[int, str] = {}
        self._has_agents = agreement.has("agents")
        self._has_replies = agreement.has("replies")

    def announce(self, data: bytes) -> None:
        """Take an alias frame (AGT-6).

        Raises
        ------
        ParlanceError
            `bad_frame`.
        """
        number, at = read_varint(data, 1)
        name = text_of(data[at:])
        if number > _MAX_NUMBER or _NAME.fullmatch(name) is None:
            raise ParlanceError("bad_frame", "an alias with another number or name than is allowed")
        if not self._has_agents and not (self._has_replies and name == "@replies"):
            raise ParlanceError("bad_frame", "an alias without the extension agents")
        self._names[number] = name

    def name_of(self, number: int | None) -> str | None:
        """Return the name that a number stands for now.

        Raises
        ------
        ParlanceError
            `bad_frame`.
        """
        if number is None:
            return None
        name = self._names.get(number)
        if name is None:
            raise ParlanceError("bad_frame", f"the number {number} of an agent was never announced")
        return name


def is_name(text: str) -> bool:
    """Whether this may be the name of an agent, or one of the server's own."""
    return _NAME.fullmatch(text) is not None
