"""The transports of httpx and httpx2."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import parlance
from conftest import QUICK, Apis, Proxy, run
from parlance import ParlanceError

LIBRARIES = [name for name in ("httpx", "httpx2") if importlib.util.find_spec(name)]
pytestmark = pytest.mark.parametrize("name", LIBRARIES)


def library_of(name: str) -> tuple[Any, Any]:
    return importlib.import_module(name), importlib.import_module(f"parlance.{name}").HttpTransport


def test_an_asynchronous_client(apis: Apis, name: str) -> None:
    library, transport = library_of(name)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b"x" * 100_000

    async def main() -> None:
        async with (
            apis.control() as command,
            Proxy(apis.urls["web"]).serving() as proxy,
            parlance.connect(proxy.url, reconnect=QUICK) as session,
            library.AsyncClient(transport=transport(session), base_url="http://session", timeout=30) as client,
        ):
            headers = {"authorization": "Bearer x", "x-two": "café".encode("latin-1")}
            told = (await client.post("/echo?a=b", content=b"{}", headers=headers)).json()
            assert told["headers"] == {"content-type": "application/octet-stream", "x-two": "café"}
            sending = asyncio.create_task(client.post("/size", content=pieces()))
            await asyncio.sleep(0.01)
            proxy.cut()
            assert (await sending).text == "3000000"
            form = {"file": ("a.bin", b"y" * 2_000_000), "model": (None, "m")}
            assert int((await client.post("/size", files=form)).text) > 2_000_000
            missing = await client.get("/nothing")
            assert (missing.status_code, missing.headers["x-why"], missing.text) == (404, "café", "not here")

            before = await command("aborted")
            async with client.stream("GET", "/endless") as response:
                async for _ in response.aiter_bytes():
                    break
            while await command("aborted") == before or session.stats()["open_streams"]:
                await asyncio.sleep(0.01)
            with pytest.raises(library.UnsupportedProtocol):
                await client.request("BREW", "/")
        with pytest.raises(library.ConnectError):
            async with library.AsyncClient(transport=transport(session)) as client:
                await client.get("http://session/")

    run(main())


def test_time_outs(apis: Apis, name: str) -> None:
    library, transport = library_of(name)

    async def stalling() -> AsyncIterator[bytes]:
        yield b"begun"
        await asyncio.sleep(3_600)

    async def main() -> None:
        async with (
            parlance.connect(apis.urls["web"]) as session,
            library.AsyncClient(transport=transport(session), base_url="http://session") as client,
        ):
            with pytest.raises(library.ReadTimeout):
                await client.get("/silent", timeout=0.05)
            async with client.stream("GET", "/falls-silent", timeout=0.2) as response:
                with pytest.raises(library.ReadTimeout):
                    await response.aread()
            with pytest.raises(library.WriteTimeout):
                await client.post("/size", content=stalling(), timeout=library.Timeout(30, write=0.05))
            # Between two pieces, and not for all of them.
            async with client.stream("GET", "/endless", timeout=1) as response:
                count = 0
                async for _ in response.aiter_bytes():
                    count += 1
                    if count == 600:
                        break
            while session.stats()["open_streams"]:
                await asyncio.sleep(0.01)

    run(main())


def test_a_synchronous_client_in_another_thread(apis: Apis, name: str) -> None:
    library, transport = library_of(name)

    async def main() -> None:
        async with parlance.connect(apis.urls["web"]) as session:

            def ask() -> None:
                with library.Client(transport=transport(session), base_url="http://session", timeout=30) as client:
                    assert client.post("/echo", content="Grüße").json()["body"] == "Grüße"
                    assert client.post("/size", content=iter([b"x" * 100_000] * 20)).text == "2000000"
                    with client.stream("GET", "/endless") as response:
                        next(response.iter_bytes())
                    with pytest.raises(library.ReadTimeout):
                        client.get("/silent", timeout=0.05)

            await asyncio.to_thread(ask)
            with (
                library.Client(transport=transport(session)) as client,
                pytest.raises(ParlanceError, match=r"unsupported: a synchronous client would block the event loop"),
            ):
                client.get("http://session/")
            while session.stats()["open_streams"]:
                await asyncio.sleep(0.01)

    run(main())


def test_a_synchronous_program_without_a_loop(apis: Apis, name: str) -> None:
    library, transport = library_of(name)
    with library.Client(transport=transport(apis.urls["web"], token="ann"), base_url="http://session") as client:
        assert client.get("/nothing").status_code == 404
        assert client.post("/size", content=b"123").text == "3"
    assert not [thread for thread in threading.enumerate() if thread.name == "parlance session"]
    with pytest.raises(library.ConnectError, match="closed"):
        client._transport.handle_request(library.Request("GET", "http://session/"))
    once = parlance.Reconnect(connect_within=0)
    nowhere = transport("ws://127.0.0.1:9/session", reconnect=once)
    with library.Client(transport=nowhere) as client, pytest.raises(library.ConnectError, match="cannot be reached"):
        client.get("http://session/")
    with pytest.raises(ParlanceError, match="invalid_argument"):
        transport(None)

    async def main() -> None:
        async with library.AsyncClient(transport=transport(apis.urls["web"])) as client:
            with pytest.raises(ParlanceError, match="needs a session of its event loop"):
                await client.get("http://session/")

    run(main())
