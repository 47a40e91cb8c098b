"""Codecs: pairs of functions between content and coded bytes (part 8)."""
