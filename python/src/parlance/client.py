"""`connect`: from options to a session."""

from __future__ import annotations

import json
import logging
import os
import re
import ssl as ssl_module
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from .codecs import brotli
from .codecs.coder import available
from .codecs.m2m import Key
from .codecs.token_native import HASHES, Vocabulary
from .core import zstd
from .core.agreement import Offer
from .core.errors import ParlanceError
from .core.events import Event, SessionReset
from .core.limits import Limits, Timers
from .core.session import SessionCore
from .core.ticket import Ticket
from .credentials import Credentials
from .driver import Driver
from .handlers import Handler
from .options import Reconnect, TokenSource
from .session import Session
from .setup import Setup
from .stores import Store
from .transports.dialer import Dialer, check_transports
from .transports.web_socket import check_url

_log: Final = logging.getLogger("parlance")
_AGENT_ID: Final = re.compile(r"[A-Za-z0-9._:@-]{1,128}")


def connect(
    url: str,
    *,
    token: TokenSource | None = None,
    agent_id: str | None = None,
    agent: Mapping[str, Any] | None = None,
    store: Store | None = None,
    on_request: Handler | None = None,
    on_reset: Callable[[SessionReset], object] | None = None,
    algorithms: tuple[str, ...] | None = None,
    context: bool = True,
    vocabulary: Any = None,
    security: Key | None = None,
    reconnect: Reconnect | bool = True,
    limits: Limits | None = None,
    timers: Timers | None = None,
    headers: Mapping[str, str] | None = None,
    ssl: ssl_module.SSLContext | None = None,
    proxy: str | bool | None = True,
    transports: tuple[str, ...] | None = None,
) -> Session:
    """Connect to a session server: `async with connect(url) as session`, or `session = await connect(url)`.

    Parameters
    ----------
    url : str
        `ws:` or `wss:`; `http:` and `https:` mean the same. It must not have a secret in it.
    token : str or callable, optional
        Credentials, or a function (`async` or not) that returns them: it is called for each connection, and again
        before they end. One that does not answer within `timers.accept` has failed.
    agent_id : str, optional
        The agent that this client wants to be. The server decides.
    agent : mapping, optional
        The description of this agent for others, as JSON of at most 4 KiB.
    store : FileStore, optional
        Keeps what the next process needs to take the session up after this one has died.
    on_request : callable, optional
        Answers requests of the server and of other agents: it is called with a `Message` and a `RequestContext`, and
        returns the answer or yields its parts. Without it, requests are answered `unsupported`.
    on_reset : callable, optional
        Called if the session, or some of its calls and messages, was lost.
    algorithms : tuple of str, optional
        The codecs to offer, in order of preference. Default: all that this Python has.
    context : bool, default True
        Whether messages may be coded against earlier ones, for which `parlance-client[context]` is needed.
    vocabulary : str or tiktoken.Encoding, optional
        Lets text travel as token IDs; a name is loaded by `tiktoken`.
    security : Key, optional
        Protects every body in both directions with a key that both ends share.
    reconnect : Reconnect or bool, default True
        How to connect again; `False` never does, and a lost connection ends the session.
    limits : Limits, optional
    timers : Timers, optional
    headers : mapping, optional
        Beside those of the upgrade request.
    ssl : ssl.SSLContext, optional
    proxy : str, bool or None, default True
        As of `websockets`: `True` takes that of the environment, `None` or `False` takes none.
    transports : tuple of str, default ('websocket', 'http')
        How frames travel, in order of preference. The second one is tried if the first has not opened within 4 s. HTTP
        needs `parlance-client[http]`, and is left out by default without it.

    Returns
    -------
    Session

    Raises
    ------
    ParlanceError
        `invalid_option`, `vocabulary_unavailable`.
    """
    address, names = check_url(url), check_transports(transports)
    limits, timers = limits or Limits(), timers or Timers()
    attempts = reconnect if isinstance(reconnect, Reconnect) else Reconnect() if reconnect else None
    words = _vocabulary(vocabulary) if security is None else None
    offer = _offer(
        limits,
        algorithms=("M2M",) if security is not None else algorithms,
        vocabulary=words,
        has_context=context and security is None and zstd.AVAILABLE,
        agent_id=agent_id,
        agent=agent,
        resumes=attempts is not None,
        rebuilds=store is not None,
    )
    options: dict[str, Any] = {"additional_headers": dict(headers or {}), "proxy": proxy or None}
    if ssl is not None:
        options["ssl"] = ssl
    if security is not None and not brotli.AVAILABLE:
        _log.info("without Brotli, protected bodies are not compressed")
    keeper = _Keeper(store, f"parlance:{address}") if store is not None else None

    def make(handle: Callable[[Event], None]) -> tuple[SessionCore, Driver]:
        ticket = keeper.open() if keeper is not None else None
        core = SessionCore(
            offer,
            timers=timers,
            unix_ms=lambda: time.time_ns() // 1_000_000,
            nonce=lambda: os.urandom(16),
            save=keeper.save if keeper is not None else None,
            ticket=ticket,
        )
        driver = Driver(
            core,
            Dialer(address, names, limits=limits, timers=timers, options=options),
            credentials=Credentials(token, within=timers.accept),
            reconnect=attempts,
            handle=handle,
        )
        return core, driver

    def release(is_over: bool) -> None:
        if keeper is not None:
            keeper.close(is_over)

    return Session(Setup(limits, words, security, on_request, on_reset, make, release))


def _vocabulary(given: Any) -> Vocabulary | None:
    if given is None or isinstance(given, Vocabulary):
        return given
    return Vocabulary.load(given) if isinstance(given, str) else Vocabulary(given)


def _offer(
    limits: Limits,
    *,
    algorithms: tuple[str, ...] | None,
    vocabulary: Vocabulary | None,
    has_context: bool,
    agent_id: str | None,
    agent: Mapping[str, Any] | None,
    resumes: bool,
    rebuilds: bool,
) -> Offer:
    if algorithms is None:
        algorithms = ("TOKEN_NATIVE", *available()) if vocabulary is not None else available()
    extensions: dict[str, Any] = {"replies": {}}
    if has_context:
        extensions["context"] = {"max_bytes": limits.context_bytes, "max_messages": limits.context_messages}
    if resumes:
        extensions |= {"resume": {}, "move": 1, "durable": 1}
        if rebuilds:
            extensions["rebuild"] = 1
    if agent_id is not None and _AGENT_ID.fullmatch(agent_id) is None:
        raise ParlanceError("invalid_option", "agent_id: expected 1 to 128 letters, digits and . _ : @ -")
    if agent_id is not None or agent is not None:
        described = dict(agent or {})
        if len(json.dumps(described)) > 4_096:
            raise ParlanceError("invalid_option", "agent: at most 4 KiB of JSON")
        extensions["agents"] = {"metadata": described}
    hashes = {}
    if vocabulary is not None and vocabulary.hash() != HASHES[vocabulary.name]:
        hashes[vocabulary.name] = vocabulary.hash()
    return Offer(
        algorithms=algorithms,
        limits=limits,
        encodings=(vocabulary.name,) if vocabulary is not None else (),
        vocabularies=hashes,
        agent_id=agent_id,
        extensions=extensions,
    )


class _Keeper:
    """The entry of one session in the store of the application."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key

    def open(self) -> Ticket | None:
        self._store.open()
        text = self._store.get(self._key)
        try:
            value = json.loads(text) if text is not None else None
        except (TypeError, ValueError):
            value = None
        return Ticket.from_json(value)

    def save(self, ticket: Ticket) -> None:
        self._store.set(self._key, json.dumps(ticket.as_json()))

    def close(self, is_over: bool) -> None:
        try:
            if is_over:
                self._store.set(self._key, None)
        except Exception:
            _log.exception("the store has failed; the next process begins with a session that is over")
        self._store.close()
