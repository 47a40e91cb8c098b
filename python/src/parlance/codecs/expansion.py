"""How far a body may expand (COD-1)."""

from __future__ import annotations

from ..core.errors import ParlanceError


def bound_of(coded: int) -> int:
    """Return how many bytes a body of so many coded bytes may decode to."""
    return 65_536 + 100 * coded


def check_length(content: bytes, expanded: int) -> bytes:
    """Return the content if it is as long as its frame says.

    Raises
    ------
    ParlanceError
        `bad_frame`.
    """
    if len(content) != expanded:
        raise ParlanceError("bad_frame", f"a body decodes to {len(content)} bytes in place of {expanded}")
    return content


def too_large(most: int) -> ParlanceError:
    """Return the error of a body that expands to more than `most` bytes."""
    return ParlanceError("decompressed_too_large", f"expands to more than {most} bytes")
