"""`fathom store`: copies of a data directory's store, and whether it is sound."""

from __future__ import annotations

from cyclopts import App


def make_app() -> App:
    app = App(name="store", help="Back up, restore and verify a server's store.")
    return app
