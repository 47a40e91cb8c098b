"""A peer of Parlance, client and server, written from the specification in docs/protocol.

It is small rather than fast: it exists to be tested by `npm run conformance`. "§4" means part 4 of the specification.
"""
