"""A worker that survives its own restart: it answers each job once, and keeps what it has done in SQLite.

python worker.py ws://127.0.0.1:8765/session. Kill it and start it again: its session continues.
"""

import sqlite3
import sys

import parlance
from parlance import Message, RequestContext


async def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:8765/session"
    database = sqlite3.connect("worker.db")
    database.execute("CREATE TABLE IF NOT EXISTS done (job TEXT PRIMARY KEY, result INTEGER)")

    async def work(request: Message, context: RequestContext) -> dict[str, int]:
        """Look the job up first: a request may come again if its answer was lost with a process."""
        job = request.json()
        row = database.execute("SELECT result FROM done WHERE job = ?", (job["id"],)).fetchone()
        if row is None:
            row = (sum(job["numbers"]),)
            with database:
                database.execute("INSERT INTO done VALUES (?, ?)", (job["id"], row[0]))
        return {"result": row[0]}

    store = parlance.FileStore("worker.json")
    async with parlance.connect(url, token="team", agent_id="worker", store=store, on_request=work) as session:
        print("rebuilt" if session.is_rebuilt else "new session", flush=True)
        await parlance.serve_requests(session)


parlance.run(main())
