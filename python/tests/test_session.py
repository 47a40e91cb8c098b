"""Sessions with a server of this checkout."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

import parlance
from conftest import PROGRAMS, Server, run, tally
from parlance import Message, ParlanceError, RequestContext, RequestError, Session


def test_messages_requests_and_parts(server: Server) -> None:
    async def main() -> None:
        async with server.connect() as session:
            echo = await session.request("grüße", metadata={"test": "echo", "reply": {"a": [1, None, True]}})
            assert (echo.text, dict(echo.metadata)) == ("grüße", {"a": [1, None, True]})
            parts = [part.text async for part in session.stream(metadata={"test": "stream", "parts": 4, "size": 12})]
            assert parts == [f"part {index} ".ljust(12, ".") for index in range(1, 5)]
            for body in ("one", b"\x00\xff", {"n": [1, 2.5, None]}):
                await session.send(body)
            assert (await tally(session, 3))["messages"] == 3
            assert session.state == "established"
            assert await session.close("finished", "as planned") == 0
            end = await session.closed
            assert (end.error, end.code, end.by_server) == (None, "finished", False)

    run(main())


@pytest.mark.parametrize("algorithm", ["NONE", "BROTLI", "DICTIONARY", "M2M", "TOKEN", "CONTEXT", None])
def test_each_codec_restores_the_content(server: Server, algorithm: str | None) -> None:
    async def main() -> None:
        async with server.connect() as session:
            text = '{"model":"gpt-4o","messages":[{"role":"user","content":"Why is the sky blue?"}],"n":3}'
            for _ in range(3):
                reply = await session.request(text, algorithm=algorithm, metadata={"test": "echo"})
                assert json.loads(reply.text).items() >= json.loads(text).items()

    run(main())


def test_large_bodies_pass_both_windows(server: Server) -> None:
    async def main() -> None:
        async with server.connect() as session:
            body = bytes(range(256)) * 3_000
            echo = {"test": "echo"}
            replies = [session.request(body, metadata=echo, compress_alone=alone) for alone in (False, True)]
            for reply in await asyncio.gather(*replies):
                assert reply.bytes == body

    run(main())


def test_a_buffer_may_be_used_again(server: Server) -> None:
    async def main() -> None:
        async with server.connect() as session:
            buffer = bytearray(64)
            replies = []
            for index in range(50):
                buffer[:] = bytes([index]) * 64
                replies.append(asyncio.create_task(session.request(buffer, metadata={"test": "echo"})))
                await asyncio.sleep(0)
                buffer[:] = b"\xff" * 64
            assert [reply.bytes[0] for reply in await asyncio.gather(*replies)] == list(range(50))

    run(main())


def test_errors_of_a_handler(server: Server) -> None:
    async def main() -> None:
        async with server.connect() as session:
            wish = {"test": "fail", "code": "no_model", "message": "not here", "retryable": True}
            with pytest.raises(RequestError, match="not here") as caught:
                await session.request(metadata=wish)
            assert (caught.value.code, caught.value.retryable) == ("no_model", True)
            with pytest.raises(ParlanceError) as caught_protocol:
                await session.request(metadata={"test": "throw", "message": "a secret"})
            assert caught_protocol.value.code == "internal"
            assert "secret" not in str(caught_protocol.value)

    run(main())


async def cancelled(session: Session) -> int:
    return int((await tally(session, 0))["cancelled"])


def test_who_stops_reading_stops_the_handler(server: Server) -> None:
    async def main() -> None:
        async with server.connect() as session:
            asking = asyncio.create_task(session.request(metadata={"test": "hang"}))
            await asyncio.sleep(0)
            await session.flush()
            asking.cancel()
            endless = {"test": "stream", "parts": 1_000_000, "size": 100, "pace": 1}
            async for _ in session.stream(metadata=endless):
                break
            async with session.stream(metadata=endless) as reply:
                parts = aiter(reply)
                await anext(parts)
            while await cancelled(session) < 3:
                await asyncio.sleep(0.01)
            assert session.stats()["open_streams"] == 0

    run(main())


def test_a_wait_with_a_time_limit_loses_nothing(server: Server) -> None:
    async def main() -> None:
        async with server.connect() as session:
            parts = aiter(session.stream(metadata={"test": "stream", "parts": 3, "size": 10}))
            # Over before the request can be written.
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await anext(parts)
            assert [len((await anext(parts)).bytes) for _ in range(3)] == [10, 10, 10]
            with pytest.raises(StopAsyncIteration):
                await anext(parts)
            # Messages, in the same way.
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await anext(session)
            saying = asyncio.create_task(session.request(metadata={"test": "say", "messages": 1, "size": 20}))
            assert (await anext(session)).text == "message 1 ".ljust(20, ".")
            await saying

    run(main())


def test_an_iterator_that_is_closed_cancels_the_request(server: Server) -> None:
    async def main() -> None:
        async with server.connect() as session:
            async with aclosing(
                aiter(session.stream(metadata={"test": "stream", "parts": 1_000_000, "size": 100}))
            ) as parts:
                await anext(parts)
            while await cancelled(session) < 1:
                await asyncio.sleep(0.01)

    run(main())


def test_a_cancelled_task_cancels_the_reply_that_it_read(server: Server) -> None:
    async def main() -> None:
        async with server.connect() as session:
            parts = aiter(session.stream(metadata={"test": "hang"}))
            reading = asyncio.create_task(anext(parts))
            await asyncio.sleep(0)
            reading.cancel()
            while await cancelled(session) < 1:
                await asyncio.sleep(0.01)
            with pytest.raises(ParlanceError, match="cancelled"):
                await anext(parts)

    run(main())


def test_a_time_out_cancels_the_request(server: Server) -> None:
    async def main() -> None:
        async with server.connect() as session:
            with pytest.raises(ParlanceError) as caught:
                await session.request(metadata={"test": "hang"}, timeout=0.01)
            assert (caught.value.code, caught.value.retryable) == ("timeout", True)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await session.request(metadata={"test": "hang"})
            while session.stats()["open_streams"]:
                await asyncio.sleep(0.01)

    run(main())


def test_more_requests_than_streams_wait(server: Server) -> None:
    async def main() -> None:
        async with server.connect() as session:
            wishes = [session.request(str(index), metadata={"test": "echo"}) for index in range(400)]
            assert [reply.text for reply in await asyncio.gather(*wishes)] == [str(index) for index in range(400)]

    run(main())


def test_answers_requests_of_the_server(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    entered: list[str] = []

    async def parts(request: Message) -> AsyncIterator[Any]:
        yield request.text
        yield {"n": 1}

    def answer(request: Message, context: RequestContext) -> Any:
        entered.append(context.metadata["test"])
        if "fail" in request.text:
            raise RequestError("refused", "not today", retryable=True)
        if "throw" in request.text:
            raise ValueError("a secret")
        return parts(request)

    async def main() -> None:
        async with server.connect(on_request=answer) as session:
            told = []
            for text in ("hi", "fail", "throw"):
                told += (await session.request(metadata={"test": "ask", "text": text})).json()
            assert told[0] == {"parts": ["hi", '{"n":1}'], "error": None}
            assert told[1]["error"] == {"code": "refused", "message": "not today"}
            assert told[2]["error"]["code"] == "internal"
            assert "secret" not in json.dumps(told)
            wish = {"test": "ask", "text": "hi", "cancel_after": 1}
            assert (await session.request(metadata=wish)).json()[0]["parts"] == ["hi"]
        assert entered == ["answer"] * 4

    with caplog.at_level(logging.CRITICAL):
        run(main())


def test_a_handler_that_was_cancelled_before_its_first_step_answers(server: Server) -> None:
    async def answer(request: Message, context: RequestContext) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with server.connect(on_request=answer) as session:
            wish = {"test": "ask", "requests": 20, "text": "x", "cancel_after": 0}
            asking = asyncio.create_task(session.request(metadata=wish))
            await asyncio.sleep(0.05)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    run(main())


def test_refusals_say_why(server: Server) -> None:
    async def refused(**options: Any) -> ParlanceError:
        with pytest.raises(ParlanceError) as caught:
            async with server.connect(**options):
                pass
        return caught.value

    async def main() -> None:
        wrong = await refused(token="wrong")
        assert (wrong.code, wrong.retryable, wrong.close_code) == ("rejected", False, 4401)
        asked: list[int] = []
        for token in ("", "x" * 16_385, lambda: b"bytes"):
            assert (await refused(token=token)).code == "invalid_option"
        again = await refused(token=lambda: asked.append(1) or "wrong")
        assert again.code == "rejected"
        assert len(asked) > 1
        with pytest.raises(ParlanceError, match="404"):
            await parlance.connect(server.url.replace("/session", "/elsewhere"))
        with pytest.raises(ParlanceError, match="is the server running"):
            await parlance.connect("ws://127.0.0.1:9/session", reconnect=False)

    run(main())
    for url in ("http//x", "ws://", "ftp://host/", "ws://user:password@host/", "ws://host:99999/", "ws://[::1/"):
        with pytest.raises(ParlanceError, match="url"):
            parlance.connect(url)
    with pytest.raises(ParlanceError, match="agent_id: expected"):
        server.connect(agent_id="my agent")


def test_bad_arguments_are_refused_at_the_call(server: Server) -> None:
    async def main() -> None:
        async with server.connect() as session:
            for body in (object(), float("nan"), {"a": {1, 2}}, "\ud800"):
                with pytest.raises(ParlanceError):
                    await session.send(body)
            for metadata in ({"a": {"b": object()}}, {"x": "y" * 9_000}, {"list": [0] * 300}):
                with pytest.raises(ParlanceError):
                    await session.request(metadata=metadata)
            with pytest.raises(ParlanceError, match="unsupported"):
                await session.send("x", to="somebody")
            with pytest.raises(ParlanceError, match="message_too_large"):
                await session.send(b"x" * (16 * 1024 * 1024 + 1))
            assert (await session.request("still", metadata={"test": "echo"})).text == "still"
        with pytest.raises(ParlanceError, match="session_closed"):
            await session.send("late")

    run(main())


def test_another_run_is_refused_by_name(server: Server) -> None:
    session = server.connect()

    async def ask() -> str:
        async with session:
            return (await session.request("once", metadata={"test": "echo"})).text

    assert run(ask()) == "once"
    with pytest.raises(ParlanceError, match=r"another asyncio\.run and a forked process connect again"):
        run(ask())

    async def close() -> int:
        return await session.close()

    assert run(close()) == 0


def test_another_thread_is_refused_by_name(server: Server) -> None:
    def call(session: Session) -> str:
        with pytest.raises(ParlanceError, match="run_coroutine_threadsafe") as caught:
            session.stream("x")
        with pytest.raises(ParlanceError, match="run_coroutine_threadsafe"):
            asyncio.run(session.send("x"))
        return caught.value.code

    def call_safely(session: Session, loop: asyncio.AbstractEventLoop) -> str:
        request = session.request("from a thread", metadata={"test": "echo"})
        return asyncio.run_coroutine_threadsafe(request, loop).result().text

    async def main() -> None:
        async with server.connect() as session:
            assert await asyncio.to_thread(call, session) == "unsupported"
            loop = asyncio.get_running_loop()
            assert await asyncio.to_thread(call_safely, session, loop) == "from a thread"

    run(main())


def test_credentials_are_renewed(server: Server) -> None:
    asked: list[int] = []

    async def token() -> str:
        asked.append(1)
        return "carol:1500"

    async def main() -> None:
        async with server.connect(token=token) as session:
            before = session.id
            while len(asked) < 4:
                await asyncio.sleep(0.05)
            assert (await session.request("on", metadata={"test": "echo"})).text == "on"
            assert session.id == before

    run(main())


def test_a_server_that_drains_is_followed() -> None:
    server = Server()

    async def main() -> None:
        async with server.connect(on_reset=lambda reset: pytest.fail(reset.code)) as session:
            reply = session.stream(metadata={"test": "stream", "parts": 30, "size": 20, "pace": 10})
            await session.request(metadata={"test": "drain", "deadline_ms": 5_000, "retry_after_ms": 1})
            assert len([part async for part in reply]) == 30
            assert (await session.request("on", metadata={"test": "echo"}, retry_unsent=True)).text == "on"

    try:
        run(main())
    finally:
        server.stop()


@pytest.mark.parametrize("reconnect", [True, False])
def test_what_is_under_way_when_a_server_was_drained_is_lost(reconnect: bool) -> None:
    server = Server(PROGRAMS["plain_server"])
    resets: list[str] = []

    async def main() -> None:
        options = {} if reconnect else {"reconnect": False}
        async with server.connect(on_reset=lambda reset: resets.append(reset.code), **options) as session:
            hanging = asyncio.create_task(session.request(metadata={"test": "hang"}))
            await session.request(metadata={"test": "drain", "deadline_ms": 50, "retry_after_ms": 1})
            with pytest.raises(ParlanceError, match="session_lost"):
                await hanging
            if reconnect:
                assert (await session.request("on", metadata={"test": "echo"}, retry_unsent=True)).text == "on"
            else:
                end = await session.closed
                assert end.error is not None
                assert end.error.code == "session_lost"
        assert resets == ["goaway"]

    try:
        run(main())
    finally:
        server.stop()


def test_a_handler_that_fails_in_any_way_answers_with_an_error(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    class Unheard(BaseException):
        pass

    async def parts() -> AsyncIterator[str]:
        yield "the first part"
        inner = asyncio.create_task(asyncio.sleep(60))
        inner.cancel()
        await inner

    def answer(request: Message, context: RequestContext) -> Any:
        if request.text == "cancelled":
            return parts()
        if request.text == "base":
            raise Unheard
        data = {"nan": float("nan"), "object": object(), "surrogate": "\ud800"}[request.text]
        raise RequestError("refused", "not today", data={"data": data})

    async def main() -> None:
        async with server.connect(on_request=answer) as session:

            async def told(text: str) -> str:
                answers = await session.request(metadata={"test": "ask", "text": text})
                return answers.json()[0]["error"]["code"]

            assert [await told(text) for text in ("cancelled", "base")] == ["internal", "internal"]
            assert [await told(text) for text in ("nan", "object", "surrogate")] == ["refused"] * 3

    with caplog.at_level(logging.CRITICAL):
        run(main())


def test_a_writer_that_fails_ends_the_session(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a frame that cannot be written")

    async def main() -> None:
        async with server.connect() as session:
            asked = session.request("x", metadata={"test": "echo"})
            monkeypatch.setattr("parlance.core.outbox.Outbox.next_frame", fail)
            with pytest.raises(ParlanceError, match="cannot be written"):
                await asked
            assert session.state == "closed"

    with caplog.at_level(logging.CRITICAL):
        run(main())


def test_any_text_is_a_reason_to_close(server: Server) -> None:
    async def main() -> None:
        session = await server.connect()
        assert await session.close("done", "half a pair: \ud800" + "." * 2_000) == 0
        end = await session.closed
        assert (end.error, end.code) == (None, "done")

    run(main())


def test_a_reply_is_read_on_the_loop_of_its_session(server: Server) -> None:
    async def read(reply: Any) -> None:
        async for _ in reply:
            pass

    async def main() -> None:
        async with server.connect() as session, session.stream(metadata={"test": "hang"}) as reply:
            with pytest.raises(ParlanceError, match="run_coroutine_threadsafe"):
                await asyncio.to_thread(asyncio.run, read(reply))

    run(main())


@pytest.mark.parametrize("nested", [False, True])
def test_a_handler_may_close_its_session(server: Server, nested: bool) -> None:
    async def answer(request: Message, context: RequestContext) -> None:
        closing = context.session.close("enough")
        await (asyncio.create_task(closing) if nested else closing)

    async def main() -> None:
        async with server.connect(on_request=answer) as session:
            with pytest.raises(ParlanceError, match="session_closed"):
                await session.request(metadata={"test": "ask", "text": "x"})
            assert (await session.closed).code == "enough"

    run(main())


def test_errors_are_pickled() -> None:
    for error in (
        ParlanceError("timeout", "late", close_code=4408),
        RequestError("full", "no room", data=[1], retry_after=2),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert str(RequestError("full")) == "full"


def test_a_reply_that_is_too_large_stops_the_handler(server: Server) -> None:
    async def main() -> None:
        async with server.connect(limits=parlance.Limits(max_message_size=65_536)) as session:
            with pytest.raises(ParlanceError, match="read it in parts"):
                await session.request(metadata={"test": "stream", "parts": 1_000_000, "size": 10_000})
            while session.stats()["open_streams"]:
                await asyncio.sleep(0.01)

    run(main())


def test_no_proxy_is_none_or_false(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        for proxy in (None, False):
            async with server.connect(proxy=proxy) as session:
                assert session.transport == "websocket"

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    run(main())
