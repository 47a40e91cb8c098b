"""The README and the examples, as they are written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Server, spawn

PROJECT = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"```python( notebook| sdk)?\n(.*?)```", (PROJECT / "README.md").read_text("utf-8"), re.DOTALL)


def execute(source: str, folder: Path, *args: str, stdin: str = "") -> str:
    """Run a program in a folder of its own."""
    path = folder / "program.py"
    path.write_text(source, "utf-8")
    env = {**os.environ, "PYTHONPATH": str(PROJECT / "src")}
    done = subprocess.run(
        [sys.executable, path, *args], cwd=folder, env=env, input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def example(name: str) -> str:
    return (PROJECT / "examples" / name).read_text("utf-8")


def test_the_readme_is_run_as_it_is_written(plain_server: Server, tmp_path: Path) -> None:
    outputs = []
    for kind, block in BLOCKS:
        if kind == " sdk":  # python/tests/sdk runs it
            continue
        source = block.replace("ws://127.0.0.1:8765/session", plain_server.url)
        if kind:
            lines = "\n".join(f"    {line}" for line in source.splitlines())
            source = f"import parlance\nasync def main():\n{lines}\nparlance.run(main())\n"
        outputs.append(execute(source, tmp_path))
    first, notebook, session, agents, http = outputs
    assert first == "You have said: Why is the sky blue?\n"
    assert notebook == "You have said: Hello!\n"
    assert "no_model try later False" in session
    assert agents.splitlines() == ["adder {'skill': 'sums'}", "6"]
    assert http.startswith("200 {'content-type': 'application/json'} {\"path\":\"/v1/models\"}")


def test_the_examples_run(plain_server: Server, tmp_path: Path) -> None:
    assert execute(example("chat.py"), tmp_path, plain_server.url, stdin="one\ntwo\n\n").splitlines() == [
        "You have said: one",
        "You have said: two",
    ]
    assert execute(example("agents.py"), tmp_path, plain_server.url).splitlines() == [
        "['mathematician']",
        "[2, 3, 5, 7, 11, 13, 17, 19]",
    ]
    pytest.importorskip("numpy")
    told = execute(example("tensors.py"), tmp_path, plain_server.url)
    assert told == "sender <Tensor float32 [1000, 1000], 4000000 bytes> mine True\n"


def test_the_worker_goes_on_after_a_kill(plain_server: Server, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(PROJECT / "src")}
    for expected in ("new session", "rebuilt", "rebuilt"):
        command = [sys.executable, str(PROJECT / "examples/worker.py"), plain_server.url]
        worker = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() == expected
        ask = f"""
import parlance
async def main():
    async with parlance.connect({plain_server.url!r}, token="team", agent_id="boss") as session:
        print((await session.request({{"id": "a", "numbers": [1, 2]}}, to="worker")).text)
parlance.run(main())
"""
        assert json.loads(execute(ask, tmp_path)) == {"result": 3}
        worker.kill()
        worker.communicate()


def test_ctrl_c_in_mid_stream_prints_no_traceback(plain_server: Server) -> None:
    program = spawn("endless.py", plain_server.url)
    assert program.stdout is not None
    program.stdout.readline()
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate()
    assert (program.returncode, errors) == (130, "")


def test_the_command_line(plain_server: Server) -> None:
    env = {**os.environ, "PYTHONPATH": str(PROJECT / "src")}
    command = [sys.executable, "-m", "parlance", "connect", plain_server.url]
    done = subprocess.run(command, env=env, input="hello\n", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "You have said: hello\n"), done.stderr
    wrong = [*command[:-1], "ws://127.0.0.1:9/", "--within", "0"]
    refused = subprocess.run(wrong, env=env, input="", capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith("connection_failed: ws://127.0.0.1:9/ cannot be reached")
    assert "Traceback" not in refused.stderr


def test_a_forked_process_is_refused_by_name(plain_server: Server, tmp_path: Path) -> None:
    program = """
import asyncio, os, sys, parlance

async def ask(session, text):
    try:
        print((await session.request(text)).text, flush=True)
    except parlance.ParlanceError as error:
        print(error.code, "forked process" in error.message, flush=True)

loop = asyncio.new_event_loop()
session = loop.run_until_complete(parlance.connect(sys.argv[1]).open())
child = os.fork()
if child == 0:
    loop.run_until_complete(ask(session, "x"))
    os._exit(0)
os.waitpid(child, 0)
loop.run_until_complete(ask(session, "x"))
loop.run_until_complete(session.close())
loop.close()
"""
    lines = execute(program, tmp_path, plain_server.url).splitlines()
    assert lines == ["invalid_argument True", "You have said: x"]


def test_a_synchronous_client_works_in_a_forked_process(plain_server: Server, tmp_path: Path) -> None:
    program = """
import asyncio, os, sys, threading, httpx2
from parlance import connect
from parlance.httpx2 import HttpTransport

def get(path):
    for client in clients:
        try:
            print(client.get(path).json()["path"], flush=True)
        except httpx2.ConnectError:
            print("refused", flush=True)

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
session = asyncio.run_coroutine_threadsafe(connect(sys.argv[1]).open(), loop).result()
# A forked process has neither the thread of the first one's session nor the loop of the second one.
clients = [httpx2.Client(transport=HttpTransport(of), base_url="http://session") for of in (sys.argv[1], session)]
get("/parent")
if os.fork() == 0:
    get("/child")
    sys.exit()
os.wait()
get("/parent")
asyncio.run_coroutine_threadsafe(session.close(), loop).result()
"""
    lines = execute(program, tmp_path, plain_server.url).split()
    assert lines == ["/parent"] * 2 + ["/child", "refused"] + ["/parent"] * 2
