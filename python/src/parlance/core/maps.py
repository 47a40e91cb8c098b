"""MessagePack maps with bounds (CTL-9 to CTL-11), and reading their fields (CTL-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

import msgpack

from .errors import ParlanceError
from .wire import MAX_SAFE, Buffer, utf16_length

MAX_DEPTH: Final = 32
MAX_CONTROL_ENTRIES: Final = 512
MAX_METADATA_ENTRIES: Final = 256

Map = dict[str, Any]


def pack(value: Mapping[str, Any]) -> bytes:
    """Write a map."""
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


def unpack(data: Buffer, most: int = MAX_CONTROL_ENTRIES, too_many: str = "message_too_large") -> Map:
    """Read one map and nothing behind it.

    Parameters
    ----------
    most : int
        The entries of all its lists and maps together; an empty one counts as one.
    too_many : str
        The code of the error for more of them, and for more than 32 levels.

    Raises
    ------
    ParlanceError
        `bad_message`, or `too_many`.
    """
    try:
        value = msgpack.unpackb(
            data, raw=False, strict_map_key=False, ext_hook=_refuse_extension, object_pairs_hook=_map_of
        )
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise ParlanceError("bad_message", f"not MessagePack: {type(error).__name__}") from None
    if type(value) is not dict:
        raise ParlanceError("bad_message", "not a map")
    left = _count(value, most, 1, too_many)
    if left < 0:
        raise ParlanceError(too_many, f"more than {most} entries")
    return value


def _refuse_extension(code: int, data: bytes) -> NoReturn:
    raise ValueError("an extension type")


def _map_of(pairs: list[tuple[Any, Any]]) -> Map:
    result: Map = {}
    for key, value in pairs:
        name = str(key) if type(key) is int else key
        if type(name) is not str or name == "__proto__":
            raise ValueError("a key that is not allowed")
        result[name] = _number_of(value) if type(value) is int else value
    return result


def _number_of(value: int) -> int | float:
    return value if -MAX_SAFE <= value <= MAX_SAFE else float(value)


def _count(value: Any, left: int, depth: int, too_many: str) -> int:
    """Return how many entries are left of `left` after those of a value; a negative number ends the walk."""
    kind = type(value)
    if kind is dict:
        items = value.values()
    elif kind is list:
        items = value
        for index, item in enumerate(value):
            if type(item) is int:
                value[index] = _number_of(item)
    elif kind in _SCALARS:
        return left
    else:
        raise ParlanceError("bad_message", "a type that the protocol does not use")
    if depth > MAX_DEPTH:
        raise ParlanceError(too_many, f"more than {MAX_DEPTH} levels")
    left -= max(1, len(value))
    for item in items:
        if left < 0:
            break
        left = _count(item, left, depth + 1, too_many)
    return left


_SCALARS: Final = frozenset({str, bytes, int, float, bool, type(None)})


def metadata_of(data: Buffer | None) -> Map:
    """Read the metadata of a body; an empty map if it has none.

    Raises
    ------
    ParlanceError
        `bad_message`, `metadata_too_large`.
    """
    return {} if data is None else unpack(data, MAX_METADATA_ENTRIES, "metadata_too_large")


def pack_metadata(metadata: Mapping[str, Any], most: int) -> bytes:
    """Write metadata of the application.

    Parameters
    ----------
    most : int
        The bytes that the peer accepts.

    Raises
    ------
    ParlanceError
        `invalid_argument` for a value that MessagePack maps do not have, `metadata_too_large`.
    """
    _assert_plain(metadata, 1)
    try:
        packed = pack(metadata)
    except (TypeError, ValueError, OverflowError) as error:
        raise ParlanceError("invalid_argument", f"metadata: {error}") from None
    if len(packed) > most:
        raise ParlanceError("metadata_too_large", f"metadata of {len(packed)} bytes; the peer takes {most}")
    try:
        unpack(packed, MAX_METADATA_ENTRIES, "metadata_too_large")
    except ParlanceError as error:
        if error.code != "bad_message":
            raise
        raise ParlanceError("invalid_argument", f"metadata: {error.message}") from None
    return packed


def _assert_plain(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ParlanceError("metadata_too_large", f"metadata of more than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ParlanceError("invalid_argument", f"metadata: a key has to be a str, not {key!r}")
            _assert_plain(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _assert_plain(item, depth + 1)
    elif not isinstance(value, str | bytes | int | float | None):
        raise ParlanceError("invalid_argument", f"metadata: a {type(value).__name__} cannot be sent")


class Fields:
    """The fields of a received map. A field of another type is `bad_message`; null counts as absent."""

    def __init__(self, value: Map, of: str) -> None:
        self._map = value
        self._of = of

    def _wrong(self, name: str, expected: str) -> ParlanceError:
        return ParlanceError("bad_message", f"{self._of}.{name}: expected {expected}")

    def text(self, name: str, most: int, least: int = 0) -> str | None:
        """Return a text of `least` to `most` UTF-16 units, or `None`."""
        value = self._map.get(name)
        if value is None:
            return None
        if type(value) is not str or not least <= utf16_length(value) <= most:
            raise self._wrong(name, f"a text of {least} to {most} characters")
        return value

    def required_text(self, name: str, most: int) -> str:
        """Return a text of 1 to `most` UTF-16 units."""
        value = self.text(name, most, 1)
        if value is None:
            raise self._wrong(name, f"a text of 1 to {most} characters")
        return value

    def whole(self, name: str, default: int = 0) -> int:
        """Return a whole number from 0."""
        value = self._map.get(name)
        if value is None:
            return default
        number = whole_of(value)
        if number is None:
            raise self._wrong(name, "a whole number")
        return number

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean."""
        value = self._map.get(name)
        if value is None:
            return default
        if type(value) is not bool:
            raise self._wrong(name, "a boolean")
        return value

    def texts(self, name: str, most: int = 64) -> list[str] | None:
        """Return a list of texts, or `None`."""
        value = self._map.get(name)
        if value is None:
            return None
        if type(value) is not list or len(value) > most or any(type(item) is not str for item in value):
            raise self._wrong(name, f"a list of at most {most} texts")
        return value

    def wholes(self, name: str, most: int) -> list[int]:
        """Return a list of whole numbers from 0."""
        value = self._map.get(name)
        numbers = [whole_of(item) for item in value] if type(value) is list else None
        if value is None:
            return []
        if numbers is None or len(numbers) > most or None in numbers:
            raise self._wrong(name, f"a list of at most {most} whole numbers")
        return [number for number in numbers if number is not None]

    def map(self, name: str) -> Map | None:
        """Return a map, or `None`."""
        value = self._map.get(name)
        if value is not None and type(value) is not dict:
            raise self._wrong(name, "a map")
        return value


def whole_of(value: Any) -> int | None:
    """Return a whole number from 0 to 2^53 - 1, also if it is written as a float; `None` if it is none."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_SAFE else None
