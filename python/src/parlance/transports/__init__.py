"""The ways in which frames travel: WebSockets, and HTTP requests (part 18)."""
