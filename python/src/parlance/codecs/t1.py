"""T1: chat JSON with abbreviated names, and without members that have their default (annex B).

It rewrites the text and not its values, so that everything that is not abbreviated keeps its spelling.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..core.errors import ParlanceError
from ..core.wire import Buffer, text_of
from . import json_text
from .expansion import too_large

_ANY: Final = "object array string number literal"
_NOT_NUMBER: Final = "object array string literal"


@dataclass(frozen=True, slots=True)
class _Place:
    """One kind of object of a request or response: long names to abbreviations and the kinds of their values."""

    names: Mapping[str, tuple[str, str]]
    inside: Mapping[str, _Place] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    longs: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (short, kinds) in self.names.items():
            for kind in kinds.split():
                self.longs[short, kind] = name


def _names(text: str) -> dict[str, tuple[str, str]]:
    return {name: (short, _ANY) for name, short in (pair.split(":") for pair in text.split())}


_NAME: Final = {"n": ("n", "number"), "name": ("n", _NOT_NUMBER)}
_FUNCTION: Final = _Place({**_NAME, **_names("arguments:a")})
_TOOL: Final = _Place(_names("index:i type:t function:fn"), {"function": _FUNCTION})
_ROLES: Final = {"system": "s", "user": "u", "assistant": "a", "function": "f", "tool": "t"}
_MESSAGE: Final = _Place(
    {**_names("role:r content:c"), **_NAME, **_names("tool_calls:tc function_call:fc")},
    {"tool_calls": _TOOL, "function_call": _FUNCTION},
    {"role": _ROLES},
)
_FINISH: Final = {"stop": "s", "length": "l", "tool_calls": "tc", "content_filter": "cf", "function_call": "fc"}
_CHOICE: Final = _Place(
    {**_names("index:i delta:d finish_reason:fr logprobs:lp"), "message": ("m", "object")},
    {"message": _MESSAGE, "delta": _MESSAGE},
    {"finish_reason": _FINISH},
)
_MODELS: Final = {
    "gpt-4o": "4o",
    "gpt-4o-mini": "4om",
    "gpt-4-turbo": "4t",
    "gpt-4": "4",
    "gpt-3.5-turbo": "35t",
    "o1": "o1",
    "o1-mini": "o1m",
    "o1-preview": "o1p",
    "o3": "o3",
    "o3-mini": "o3m",
    "meta-llama/llama-3.3-70b": "ml3370",
    "meta-llama/llama-3.1-405b": "ml31405",
    "meta-llama/llama-3.1-70b": "ml3170",
    "meta-llama/llama-3.1-8b": "ml318",
    "mistralai/mistral-large": "mim-l",
    "mistralai/mistral-small": "mim-s",
    "mistralai/mixtral-8x7b": "mimx87",
}
_BODY: Final = _Place(
    {
        "messages": ("m", "array"),
        "message": ("m", "object"),
        **_names(
            "model:M temperature:T max_tokens:x top_p:p stream:s stop:S frequency_penalty:f presence_penalty:P "
            "logit_bias:lb user:u seed:se tools:ts tool_choice:tc function_call:fc functions:fs response_format:rf "
            "choices:C usage:U logprobs:lp"
        ),
        **_NAME,
    },
    {
        "messages": _MESSAGE,
        "message": _MESSAGE,
        "tools": _TOOL,
        "tool_choice": _TOOL,
        "function_call": _FUNCTION,
        "functions": _FUNCTION,
        "response_format": _Place(_names("type:t")),
        "choices": _CHOICE,
        "usage": _Place(_names("prompt_tokens:pt completion_tokens:ct total_tokens:tt")),
    },
    {"model": _MODELS},
)
_ONE: Final = re.compile(r"1(\.0+)?")
_ZERO: Final = re.compile(r"0(\.0+)?")
#: Members that a request leaves out: how they are restored, and the spellings that mean it.
_DEFAULTS: Final = {
    "temperature": ("1", _ONE),
    "top_p": ("1", _ONE),
    "n": ("1", _ONE),
    "stream": ("false", re.compile("false")),
    "frequency_penalty": ("0", _ZERO),
    "presence_penalty": ("0", _ZERO),
    "logit_bias": ("{}", re.compile(r"\{\}")),
    "stop": ("null", re.compile("null")),
}
#: The length of all defaults, which older senders leave out of `expanded` (LINK-12).
SLACK: Final = sum(len(f',"{name}":{text}') for name, (text, _) in _DEFAULTS.items())
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
_LONG_VALUES: Final = {
    id(table): {short: long for long, short in table.items()} for table in (_ROLES, _FINISH, _MODELS)
}


def encode(content: bytes) -> tuple[bytes, int]:
    """Abbreviate chat JSON.

    Returns
    -------
    coded, expanded : bytes, int
        The body, and the length of what it expands to.

    Raises
    ------
    ParlanceError
        `bad_json`, `unrepresentable` (T1-1, T1-2), and errors of bounds.
    """
    text = text_of(content)
    json_text.parse(text)
    short = _rewrite(text, "abbreviate", "unrepresentable")
    long = _rewrite(short, "expand", "unrepresentable")
    if long != _rewrite(text, "keep", "unrepresentable"):
        raise ParlanceError("unrepresentable", "the JSON uses an abbreviation of T1 with another meaning")
    return short.encode(), len(long.encode())


def decode(data: Buffer, most: int) -> bytes:
    """Expand a body to at most `most` bytes.

    Raises
    ------
    ParlanceError
        `bad_utf8`, `bad_json`, `decompressed_too_large`, and errors of bounds.
    """
    text = text_of(data)
    json_text.parse(text)
    content = _rewrite(text, "expand", "bad_json").encode()
    if len(content) > most:
        raise too_large(most)
    return content


def _rewrite(text: str, direction: str, repeated: str) -> str:
    rewriter = _Rewriter(_TOKENS.findall(text), direction, repeated)
    return rewriter.value(_BODY if rewriter.kind() == "object" else None)


class _Rewriter:
    """A cursor over the tokens of valid JSON. The nesting of places bounds its recursion, not that of the input."""

    def __init__(self, tokens: list[str], direction: str, repeated: str) -> None:
        self._tokens = tokens
        self._direction = direction
        self._repeated = repeated
        self._at = 0

    def kind(self) -> str:
        """Return the kind of the value at the cursor."""
        first = self._tokens[self._at][0]
        kinds = {"{": "object", "[": "array", '"': "string", "t": "literal", "f": "literal", "n": "literal"}
        return kinds.get(first, "number")

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def value(self, place: _Place | None) -> str:
        """Rewrite the value at the cursor and move past it."""
        kind = self.kind()
        if place is not None and kind == "object":
            return self._object(place)
        if place is not None and kind == "array":
            return self._array(place)
        return self._copy()

    def _copy(self) -> str:
        start, depth = self._at, 0
        while True:
            piece = self._next()
            if piece in "[{":
                depth += 1
            elif piece in "]}":
                depth -= 1
            if depth == 0:
                return "".join(self._tokens[start : self._at])

    def _array(self, place: _Place) -> str:
        elements = []
        self._at += 1
        while self._tokens[self._at] != "]":
            elements.append(self.value(place if self.kind() == "object" else None))
            if self._tokens[self._at] == ",":
                self._at += 1
        self._at += 1
        return f"[{','.join(elements)}]"

    def _object(self, place: _Place) -> str:
        members: list[tuple[str, str, str]] = []
        names: set[str] = set()
        is_request = False
        self._at += 1
        while self._tokens[self._at] != "}":
            key = self._next()
            self._at += 1
            kind = self.kind()
            name, written = self._key(place, key, kind)
            if name in place.names:
                if name in names:
                    raise ParlanceError(self._repeated, f"an object has the member {name!r} twice")
                names.add(name)
            is_request = is_request or (name == "messages" and kind == "array")
            members.append((name, written, self._member(place, name)))
            if self._tokens[self._at] == ",":
                self._at += 1
        self._at += 1
        if self._direction == "abbreviate":
            members = _without_repeated(members, place)
        if place is _BODY and is_request:
            members = self._with_defaults(members, names)
        return "{" + ",".join(f"{written}:{value}" for _, written, value in members) + "}"

    def _key(self, place: _Place, key: str, kind: str) -> tuple[str, str]:
        name = _unquote(key)
        if self._direction == "expand":
            long = place.longs.get((name, kind))
            return (name, key) if long is None else (long, f'"{long}"')
        entry = place.names.get(name)
        if entry is None:
            return name, key
        short, kinds = entry
        return name, f'"{short}"' if self._direction == "abbreviate" and kind in kinds.split() else f'"{name}"'

    def _member(self, place: _Place, name: str) -> str:
        table = place.values.get(name)
        if table is None or self.kind() != "string":
            return self.value(place.inside.get(name))
        source = self._next()
        value = _unquote(source)
        if self._direction == "expand":
            long = _LONG_VALUES[id(table)].get(value)
            return source if long is None else f'"{long}"'
        short = table.get(value)
        if short is None:
            return source
        return f'"{short if self._direction == "abbreviate" else value}"'

    def _with_defaults(self, members: list[tuple[str, str, str]], names: set[str]) -> list[tuple[str, str, str]]:
        missing = {name for name in _DEFAULTS if name not in names}
        if self._direction != "expand":
            left_out = {
                name
                for name, _, value in members
                if name in _DEFAULTS and _DEFAULTS[name][1].fullmatch(value) is not None
            }
            members = [member for member in members if member[0] not in left_out]
            missing |= left_out
        if self._direction == "abbreviate":
            return members
        restored = [(name, f'"{name}"', text) for name, (text, _) in _DEFAULTS.items() if name in missing]
        return members + restored


def _without_repeated(members: list[tuple[str, str, str]], place: _Place) -> list[tuple[str, str, str]]:
    """Keep two names long that have one abbreviation: a reader would take only one of them."""
    counts = Counter(written for _, written, _ in members)
    return [
        (name, f'"{name}"' if counts[written] > 1 and name in place.names else written, value)
        for name, written, value in members
    ]


def _unquote(text: str) -> str:
    value: str = json.loads(text) if "\\" in text else text[1:-1]
    return value
