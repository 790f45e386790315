"""A bug, found by the code it would have harmed."""

from __future__ import annotations


class InvariantBroken(Exception):
    """Something that must always be true is not. The message carries the object's story."""
