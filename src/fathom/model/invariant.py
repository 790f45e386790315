"""The exception for bugs: code raises it when an invariant that it relies on is broken."""

from __future__ import annotations


class InvariantBroken(Exception):
    """Something that must always be true is not. The message carries the object's history."""
