"""A client for Parlance: messages, requests and streamed replies in a session that outlives its connections."""

from .agents import Agent, Agents
from .client import connect
from .codecs.avp import AvpMetadata
from .codecs.m2m import Key
from .codecs.token_native import Vocabulary
from .core.errors import ParlanceError, RequestError
from .core.events import SessionReset
from .core.limits import Limits, Timers
from .handlers import Handler, RequestContext, Tokens
from .http.fetch import HttpResponse
from .messages import Message
from .options import Reconnect, TokenSource
from .reply import Reply
from .running import run, serve_requests
from .session import Session
from .setup import SessionEnd
from .stores import FileStore, MemoryStore, Store
from .tensors import Tensor

__all__ = [
    "Agent",
    "Agents",
    "AvpMetadata",
    "FileStore",
    "Handler",
    "HttpResponse",
    "Key",
    "Limits",
    "MemoryStore",
    "Message",
    "ParlanceError",
    "Reconnect",
    "Reply",
    "RequestContext",
    "RequestError",
    "Session",
    "SessionEnd",
    "SessionReset",
    "Store",
    "Tensor",
    "Timers",
    "TokenSource",
    "Tokens",
    "Vocabulary",
    "connect",
    "run",
    "serve_requests",
]

__version__ = "0.1.0"
