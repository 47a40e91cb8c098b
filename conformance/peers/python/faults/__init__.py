"""Peers with one fault each, so that the scenarios are tested as well: none of this is in the peer itself."""
