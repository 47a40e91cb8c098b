"""ACCEPT as the session needs it (parts 2 and 6)."""

from __future__ import annotations

from dataclasses import dataclass

from .agreement import Agreement, Offer, read_agreement
from .control import Control
from .errors import ParlanceError
from .maps import Fields, Map


@dataclass(frozen=True, slots=True)
class Answer:
    """The content of ACCEPT.

    Attributes
    ----------
    token : str or None
        `None` if the session cannot be resumed.
    window : float
        Seconds for which it survives without a connection.
    recovered : bool
        Whether the session that HELLO has named continues.
    received : int
        Counted frames that the server has.
    rebuilt : dict or None
        The state with which a link begins that takes the place of a former one.
    """

    agreement: Agreement
    token: str | None = None
    window: float = 0.0
    recovered: bool = False
    received: int = 0
    reason: str | None = None
    rebuilt: Map | None = None


def read_answer(offer: Offer, accept: Control) -> Answer:
    """Read ACCEPT.

    Raises
    ------
    ParlanceError
        `bad_acceptance`, `bad_message`, `unsupported`.
    """
    agreement = read_agreement(offer, accept)
    if not agreement.has("resume"):
        return Answer(agreement)
    payload = accept.fields.map("resume")
    if payload is None:
        raise ParlanceError("bad_acceptance", "ACCEPT without resume, which it agrees on")
    fields = Fields(payload, "resume")
    return Answer(
        agreement,
        token=fields.required_text("token", 256),
        window=fields.whole("window_ms") / 1_000,
        recovered=fields.flag("recovered"),
        received=fields.whole("received"),
        reason=fields.text("reason", 128),
        rebuilt=fields.map("rebuilt"),
    )
