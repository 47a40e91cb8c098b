"""The protocol without input and output: bytes and the time go in, frames and events come out.

Nothing here imports `asyncio`, opens a socket, sets a timer or reads a clock. `session.SessionCore` is the door: it
outlives connections. `parlance.driver` and `parlance.transports` hold the sockets. The names are those of the
TypeScript package `@parlance/protocol`, in snake case.
"""
