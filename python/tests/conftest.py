"""A server of this checkout, and a proxy whose connections the tests cut."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings

import parlance
from parlance.codecs import avp

ROOT = Path(__file__).resolve().parents[2]
#: Where `scripts/python.ts` has bundled the programs, which start in a sixth of the processor time then.
BUNDLED = os.environ.get("E2E_PROGRAMS")
PATIENCE = 300

# Their packages are in environments of their own: scripts/python.ts.
PACKAGES = {"sdk": "openai", "reference": "avp"}
collect_ignore = [folder for folder, package in PACKAGES.items() if importlib.util.find_spec(package) is None]

# Timings never decide a test; in CI a failure must mean that a change broke something.
settings.register_profile(
    "parlance", deadline=None, max_examples=40, derandomize="CI" in os.environ, suppress_health_check=list(HealthCheck)
)
settings.load_profile("parlance")


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a test, which leaves no task behind; the time-out is against hanging only."""

    async def bounded() -> Any:
        async with asyncio.timeout(PATIENCE):
            result = await main
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, others
        return result

    return asyncio.run(bounded(), debug=False)


#: The programs behind fixtures. They are started before the first test, so that they are ready when one asks for them.
PROGRAMS = {
    "server": "conformance/peers/parlance/main.ts",
    "plain_server": "e2e/src/python/server.ts",
    "apis": "e2e/src/python/http.ts",
    "events_server": "e2e/src/python/events.ts",
}
STARTED: dict[str, subprocess.Popen[str]] = {}


def node(program: str, *args: str) -> subprocess.Popen[str]:
    """Start a program of this checkout, unless it was started already."""
    if program in STARTED:
        return STARTED.pop(program)
    return subprocess.Popen(
        [*command_of(program), *args], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def command_of(program: str) -> list[str]:
    """Return what runs a program of this checkout."""
    if BUNDLED is not None:
        return ["node", str(Path(BUNDLED, program).with_suffix(".mjs"))]
    return ["node", "--import", "tsx", "--conditions=@parlance/source", str(ROOT / program)]


def decode_avp(frame: bytes, most: int) -> tuple[avp.AvpMetadata, bytes | bytearray]:
    """Read a whole frame of exactly these bytes; from a link its head and its body come one after the other."""
    if len(frame) < avp.HEADER:
        raise parlance.ParlanceError("truncated", "an AVP frame without its header")
    total, size = struct.unpack_from("<II", frame, 4)
    avp.decode_head(frame[: avp.HEADER + min(size, total)])
    if len(frame) - avp.HEADER != total:
        code = "truncated" if len(frame) - avp.HEADER < total else "trailing_bytes"
        raise parlance.ParlanceError(code, "the length of an AVP frame")
    return avp.open_frame(frame[: avp.HEADER + size], frame[avp.HEADER + size :], most)


class Server:
    """The server of the conformance kit, as a process: it answers the tests that `conformance/README.md` lists."""

    def __init__(self, program: str = PROGRAMS["server"]) -> None:
        self.process = node(program, "--listen", "0")
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("ws:"), "the server has not started"

    def connect(self, **options: Any) -> parlance.Session:
        return parlance.connect(self.url, **{"token": "ann", "reconnect": QUICK, **options})

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


QUICK = parlance.Reconnect(min_delay=0.005, max_delay=0.05, connect_within=30)


class KitRun:
    """The conformance kit as a server, with the client as its peer: it mostly waits, so it runs beside other tests."""

    def __init__(self, transport: str) -> None:
        self._transport = transport
        command = [*command_of("conformance/src/main.ts"), "--listen", "0"]
        if transport == "http":
            command += ["--only", "http"]
        self._kit = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._visit)
        self._thread.start()
        self.output = ""

    def _visit(self) -> None:
        assert self._kit.stdout is not None
        line = self._kit.stdout.readline()
        peer = spawn("kit_peer.py", line.split()[-1], self._transport)
        self.output = line + self._kit.stdout.read()
        self._kit.wait()
        peer.kill()
        peer.communicate()

    def wait(self) -> int:
        """Wait for its end, and return its exit code."""
        self._thread.join()
        return self._kit.returncode

    def stop(self) -> None:
        self._kit.kill()
        self._thread.join()


KITS = pytest.StashKey[dict[str, KitRun]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = {name for item in session.items if isinstance(item, pytest.Function) for name in item.fixturenames}
    if session.config.option.collectonly:
        return
    if "kits" in wanted:
        session.config.stash[KITS] = {name: KitRun(name) for name in ("websocket", "http")}
    STARTED.update({program: node(program, "--listen", "0") for name, program in PROGRAMS.items() if name in wanted})


@pytest.fixture
def kits(request: pytest.FixtureRequest) -> dict[str, KitRun]:
    return request.config.stash[KITS]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the counts as `scripts/run.ts` reads them."""
    for kit_run in config.stash.get(KITS, {}).values():
        kit_run.stop()
    for process in STARTED.values():
        process.kill()
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        count = {name: len(reporter.stats.get(name, ())) for name in ("passed", "failed", "error", "skipped")}
        failed = count["failed"] + count["error"]
        print(f"python: {count['passed']} passed, {failed} failed, {count['skipped']} skipped")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def plain_server() -> Iterator[Server]:
    """A server without records and rates, which is faster."""
    server = Server(PROGRAMS["plain_server"])
    yield server
    server.stop()


class Apis:
    """APIs, and servers that forward to them; commands go over a session."""

    def __init__(self) -> None:
        self.process = node(PROGRAMS["apis"])
        assert self.process.stdout is not None
        self.urls: dict[str, str] = json.loads(self.process.stdout.readline())

    @contextlib.asynccontextmanager
    async def control(self) -> AsyncIterator[Callable[..., Coroutine[Any, Any, Any]]]:
        async with parlance.connect(self.urls["control"], reconnect=QUICK) as session:

            async def command(do: str, **given: Any) -> Any:
                return (await session.request({"do": do, **given})).json()

            yield command

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def apis() -> Iterator[Apis]:
    apis = Apis()
    yield apis
    apis.stop()


@pytest.fixture
def events_server() -> Iterator[subprocess.Popen[str]]:
    """A server of durable sessions with events, which obeys lines."""
    process = node(PROGRAMS["events_server"])
    yield process
    process.communicate("")


@pytest.fixture(scope="session")
def networks(plain_server: Server) -> Iterator[dict[str, str]]:
    """URLs of the plain server behind proxies that no WebSocket passes, by what they do to an upgrade."""
    process = node("e2e/src/python/networks.ts", plain_server.url)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())
    process.kill()
    process.wait()


class Proxy:
    """Forwards bytes to a server, and cuts connections."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.point(url)
        self._links: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.cuts = 0
        self.is_refusing = False
        #: Called with the bytes that the server has sent so far on a connection.
        self.on_bytes: Callable[[int], None] = lambda total: None

    def point(self, url: str) -> None:
        """Forward later connections to this URL."""
        address = urlsplit(url)
        self._target, self._path = (address.hostname, address.port), address.path

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.url = f"ws://127.0.0.1:{self.port}{self._path}"
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    def cut(self) -> None:
        """Reset all connections."""
        self.cuts += bool(self._links)
        for link in list(self._links):
            for writer in link:
                writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_refusing:
            writer.transport.abort()
            return
        try:
            back_reader, back_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        link = (writer, back_writer)
        self._links.add(link)
        pumps = [self._pump(reader, back_writer, lambda total: None), self._pump(back_reader, writer, self._heard)]
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await asyncio.gather(*pumps)
        finally:
            self._tasks.discard(task)
            self._links.discard(link)
            for end in link:
                end.transport.abort()

    def _heard(self, total: int) -> None:
        self.on_bytes(total)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Callable[[int], None]
    ) -> None:
        total = 0
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                total += len(data)
                heard(total)
                await writer.drain()
        writer.transport.abort()


def spawn(program: str, *args: str) -> subprocess.Popen[str]:
    """Start a program of `tests/programs`."""
    path = Path(__file__).parent / "programs" / program
    source = str(Path(__file__).resolve().parents[1] / "src")
    env = {**os.environ, "PYTHONPATH": source, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, str(path), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


async def tally(session: parlance.Session, messages: int) -> dict[str, Any]:
    """Return what the server has received once that many messages are handled: streams overtake each other."""
    while True:
        value: dict[str, Any] = (await session.request(metadata={"test": "tally"})).json()
        if value["messages"] >= messages:
            return value
        await asyncio.sleep(0.01)
