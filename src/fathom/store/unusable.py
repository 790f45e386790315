"""Why a store cannot be used until someone acts. Each message is one line that says what to do."""

from __future__ import annotations

from fathom.store.protocol import StoreUnavailable


class StoreUnusable(StoreUnavailable):
    """Trying again does not help. At start: print the line and stop."""


class StoreLocked(StoreUnusable):
    """Another process has the data directory."""


class StoreUnwritable(StoreUnusable):
    """The data directory or a file in it cannot be made, read or written."""


class StoreDamaged(StoreUnusable):
    """The database is not what was written."""


class StoreForeign(StoreUnusable):
    """Something else than a store of this fathom: another application's file, or a newer schema."""


class BadStoreUrl(StoreUnusable):
    """The store's address cannot be understood."""
