"""Errors of a store that an operator must fix. Each message is one line that says what to do."""

from __future__ import annotations

from fathom.store.protocol import StoreUnavailable


class StoreUnusable(StoreUnavailable):
    """Trying again does not help. At start: print the line and stop."""


class StoreLocked(StoreUnusable):
    """Another process holds the data directory's lock."""


class StoreUnwritable(StoreUnusable):
    """The data directory or a file in it cannot be made, read or written."""


class StoreDamaged(StoreUnusable):
    """The database differs from what was written."""


class StoreForeign(StoreUnusable):
    """Not a store of this fathom version: another application's file, or a newer schema."""


class BadStoreUrl(StoreUnusable):
    """The store's address is malformed."""
