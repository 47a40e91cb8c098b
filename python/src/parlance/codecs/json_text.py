"""JSON of a peer: bounded before it is built (LIM-1)."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from ..core.errors import ParlanceError

#: Bytes that the value of a document may take, by an estimate from above.
MAX_MEMORY: Final = 256 * 1024 * 1024
MAX_DEPTH: Final = 512
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_OTHERS: Final = re.compile(r"[^\[\]{}]+")


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


#: `json.loads` with an option makes a decoder for each document.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)


def parse(text: str) -> Any:
    """Parse a JSON document.

    Raises
    ------
    ParlanceError
        `bad_json`, `json_too_deep`, `too_many_values`.
    """
    # A text of that many characters nests no deeper, and its value is within the estimate.
    if len(text) > MAX_DEPTH:
        _bound(text)
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ParlanceError("json_too_deep", "JSON that nests too deep") from None
    except ValueError as error:
        raise ParlanceError("bad_json", str(error)) from None


def _bound(text: str) -> None:
    containers = text.count("[") + text.count("{")
    if 89 * len(text) > MAX_MEMORY:
        estimate = len(text) + 88 * containers + 24 * text.count(",") + 40 * text.count('"')
        if estimate > MAX_MEMORY:
            raise ParlanceError("too_many_values", "the value of a JSON document would take too much memory")
    if containers > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise ParlanceError("json_too_deep", f"JSON of more than {MAX_DEPTH} levels")


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in _OTHERS.sub("", _STRING.sub("", text)):
        depth += 1 if character in "[{" else -1
        deepest = max(deepest, depth)
    return deepest
