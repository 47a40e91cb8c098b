"""HTTP in a session: a client sees what it would see directly, unless docs/HTTP.md says otherwise."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

import parlance
from conftest import QUICK, Apis, Proxy, run
from parlance import ParlanceError
from parlance.http.head import decode_pull, decode_response, encode_request, headers_to_send, path_of

WAYS = {"gateway": "gateway", "onFetch": "onFetch"}


async def observe(session: parlance.Session, case: dict[str, Any], command: Any) -> dict[str, Any]:
    """Return what a client sees, and tell the API of each piece: it sends the next one then."""
    seen: dict[str, Any] = {"headers": {}, "body": "", "failed": False}
    try:
        body = base64.b64decode(case["body"])
        response = await session.fetch(case["path"], method=case["method"], headers=case["headers"], body=body)
        seen = {"status": response.status, **seen, "headers": response.headers}
        await command("report", text="head")
        async for chunk in response:
            text = chunk.decode("latin-1")
            seen["body"] += text
            await command("report", text=text if len(text) < 10_000 else "")
    except ParlanceError:
        seen["failed"] = True
    return seen


@pytest.mark.parametrize("way", WAYS)
def test_a_client_sees_what_it_would_see_directly(apis: Apis, way: str) -> None:
    async def main() -> None:
        async with apis.control() as command, parlance.connect(apis.urls[way]) as session:
            cases = await command("cases")
            wrong = []
            for index, case in enumerate(cases):
                await command("begin", case=index)
                seen = await observe(session, case, command)
                if verdict := await command("judge", case=index, way=way, seen=seen):
                    wrong.append((case["name"], verdict))
            assert wrong == []
            assert len(cases) > 100
            assert session.stats()["open_streams"] == 0

    run(main())


def test_bodies_of_any_kind_are_sent(apis: Apis) -> None:
    async def pieces(count: int) -> AsyncIterator[bytes]:
        for index in range(count):
            yield bytes([index % 256]) * 100_000
            await asyncio.sleep(0)

    async def main() -> None:
        async with Proxy(apis.urls["web"]).serving() as proxy, parlance.connect(proxy.url, reconnect=QUICK) as session:
            told = await (await session.fetch("/echo?a=ä b", method="POST", body="Grüße")).json()
            assert (told["method"], told["body"]) == ("POST", "Grüße")
            assert told["headers"]["content-type"] == "text/plain;charset=UTF-8"
            secret = {"Authorization": "Bearer x", "Cookie": "a=b", "User-Agent": "me", "X-Kept": "yes"}
            told = await (await session.fetch("/echo", method="PUT", headers=secret, body=b"\x01")).json()
            assert told["headers"] == {"content-type": "application/octet-stream", "x-kept": "yes"}

            sending = asyncio.create_task(session.fetch("/size", method="POST", body=pieces(60)))
            for _ in range(3):
                await asyncio.sleep(0.01)
                proxy.cut()
            assert await (await sending).text() == "6000000"
            large = await session.fetch("/size", method="POST", body=b"x" * 17_000_000)
            assert await large.text() == "17000000"
            refused = await session.fetch("/unread", method="POST", body=pieces(10**9))
            assert (refused.status, await refused.text()) == (413, "too much")

            async def broken() -> AsyncIterator[bytes]:
                yield b"begun"
                raise ValueError("the disk is gone")

            with pytest.raises(ValueError, match="the disk is gone"):
                await session.fetch("/size", method="POST", body=broken())
            with pytest.raises(TypeError, match="not bytes"):
                await session.fetch("/size", method="POST", body=_texts())  # type: ignore[arg-type]
            missing = await session.fetch("http://anywhere/else", method="HEAD")
            assert (missing.status, missing.headers["x-why"], await missing.read()) == (404, "café", b"")
            while session.stats()["open_streams"]:
                await asyncio.sleep(0.01)

    run(main())


async def _texts() -> AsyncIterator[str]:
    yield "a text"


def test_only_a_body_that_is_offered_is_sent(apis: Apis) -> None:
    async def main() -> None:
        async def body() -> AsyncIterator[bytes]:
            yield b"one"

        async with parlance.connect(apis.urls["control"]) as session:
            for number in (1, 2, 0, 2**53, "1", None):
                assert (await session.request({"do": "pull", "id": number})).json() == _pulled(number)
            with pytest.raises(ParlanceError, match="unsupported"):
                await session.fetch("/", method="POST", body=body())
            assert (await session.request({"do": "pull", "id": 1})).json() == "unknown_body"

    def _pulled(number: Any) -> str:
        return "unsupported" if number is None else "unknown_body"

    run(main())


def test_leaving_a_body_stops_its_handler(apis: Apis) -> None:
    async def main() -> None:
        async with apis.control() as command, parlance.connect(apis.urls["web"]) as session:
            before = await command("aborted")
            async with await session.fetch("/endless") as response:
                async for chunk in response:
                    assert chunk[:1] == b"x"
                    break
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await session.fetch("/silent")
            while await command("aborted") == before or session.stats()["open_streams"]:
                await asyncio.sleep(0.01)

    run(main())


def test_a_kept_reply_is_followed(apis: Apis) -> None:
    async def main() -> None:
        async with parlance.connect(apis.urls["web"]) as session:
            first = await session.fetch("/kept")
            name = first.headers["x-parlance-reply"]
            assert first.headers["x-parlance-after"] == "0"
            assert await first.text() == "data: a\n\ndata: b\n\ndata: c\n\ndata: d\n\n"
            for key in (name, "letters"):
                again = await session.fetch("/", headers={"X-Parlance-Follow": key, "X-Parlance-After": "2"})
                assert (again.headers["x-parlance-after"], await again.text()) == ("2", "data: c\n\ndata: d\n\n")
            forgotten = await session.fetch("/", headers={"x-parlance-follow": "numbers"})
            assert (forgotten.status, await forgotten.read()) == (204, b"")
            with pytest.raises(ParlanceError, match="invalid_argument"):
                await session.fetch("/", headers={"x-parlance-follow": name, "x-parlance-after": "-1"})

    run(main())


@pytest.mark.parametrize(
    ("metadata", "is_refused"),
    [
        ({}, False),
        ({"http": {"status": 200}}, False),
        ({"http": {"status": 599, "headers": {"a" * 64: "b" * 4_096}}}, False),
        ({"http": {"status": 200, "headers": {str(index): "" for index in range(64)}}}, False),
        ({"http": {"status": 200, "headers": {str(index): "" for index in range(65)}}}, True),
        ({"http": {"status": 200, "headers": {"a" * 65: ""}}}, True),
        ({"http": {"status": 200, "headers": {"a": "b" * 4_097}}}, True),
        ({"http": {"status": 200, "headers": {"a": "b\r\nc: d"}}}, True),
        ({"http": {"status": 200, "headers": {"a": 1}}}, True),
        ({"http": {"status": 200, "headers": {"A": ""}}}, True),
        ({"http": {"status": 200, "headers": []}}, True),
        ({"http": {"status": 199}}, True),
        ({"http": {"status": 600}}, True),
        ({"http": {"status": True}}, True),
        ({"http": {"status": "200"}}, True),
        ({"http": "200"}, True),
    ],
)
def test_heads_of_responses(metadata: dict[str, Any], is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(ParlanceError, match="bad_message"):
            decode_response(metadata)
    else:
        assert decode_response(metadata) == (
            (metadata["http"]["status"], metadata["http"].get("headers", {})) if metadata else None
        )


def test_heads_of_requests() -> None:
    assert encode_request("POST", "/", {}) == {"http": {"path": "/"}}
    assert encode_request("GET", "/a", {"b": "c"}, 7) == {
        "http": {"method": "GET", "upload": {"id": 7, "path": "/a"}, "headers": {"b": "c"}}
    }
    assert path_of("http://host/a b?ä=%C3#no") == "/a%20b?%C3%A4=%C3"
    assert path_of("/" + "a" * 2_047) == "/" + "a" * 2_047
    for method, path, headers in (("get", "/", {}), ("GET", "/" + "a" * 2_048, {}), ("GET", "/", {"a": "\u0100"})):
        with pytest.raises(ParlanceError, match="invalid_argument"):
            encode_request(method, path, headers)
    with pytest.raises(ParlanceError, match="unsupported"):
        path_of("ftp://host/")
    plain = {"accept": "application/json", "content-type": "application/json; charset=utf-8"}
    assert headers_to_send(plain) == plain
    of_an_sdk = {"x-stainless-lang": "python", "accept": "application/json", "content-type": "application/json"}
    assert headers_to_send(of_an_sdk) == {}
    assert [decode_pull({"http": {"pull": pull}}) for pull in (7, 0, -1, 1.5, True, None)] == [7, 0, 0, 0, 0, None]
    assert decode_pull({"http": "pull"}) is None
