"""The protocol by which the API server serves the web page and knows its sessions: `web/` implements it, the
wiring injects it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from fathom.api.core import Call
from fathom.api.request import Answer, Request
from fathom.model.errors import no_such_path
from fathom.model.user import User

Send = Callable[[Request], Awaitable[Answer]]


class PageSession(Protocol):
    """The session of one request: somebody who logged in with a browser."""

    @property
    def user(self) -> User: ...

    def check(self, call: Call) -> None:
        """Raises 403 if the session does not allow the request, whatever RBAC says."""
        ...

    def followed(self, answer: Answer) -> Answer:
        """The answer; a stream ends with the session."""
        ...


class PageWrite(msgspec.Struct, frozen=True):
    """A request to the page itself that belongs in the audit log."""

    user: User
    verb: str
    resource: str  # 'ui/record/exports'
    name: str = ""
    namespace: str = ""
    subresource: str = ""


class WebPage(Protocol):
    def serves(self, request: Request) -> bool:
        """Whether the request is for the page itself: its files, its login."""
        ...

    async def serve(self, request: Request, send: Send) -> Answer:
        """`send`: serves another request with the same credentials. Raises nothing."""
        ...

    def write_of(self, request: Request) -> PageWrite | None:
        """What a request for the page changes; None: nothing, or nobody knows who sends it."""
        ...

    def session_of(self, request: Request) -> PageSession | None:
        """None: the request belongs to no session. Raises 401 or 403."""
        ...

    def check_body(self, request: Request, body_bytes: int) -> bool:
        """Before a body is read. False: the request is neither for the page nor of a session. Raises 401, 403
        or 413."""
        ...

    def sweep(self) -> None:
        """End sessions that are over."""
        ...


class NoWebPage:
    """For simulations, which nobody looks at with a browser."""

    def serves(self, request: Request) -> bool:
        return False

    async def serve(self, request: Request, send: Send) -> Answer:
        raise no_such_path()

    def write_of(self, request: Request) -> PageWrite | None:
        return None

    def session_of(self, request: Request) -> PageSession | None:
        return None

    def check_body(self, request: Request, body_bytes: int) -> bool:
        return False

    def sweep(self) -> None: ...
