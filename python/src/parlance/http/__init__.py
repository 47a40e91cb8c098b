"""HTTP in a session: what `session.fetch` and the transports of httpx send."""
