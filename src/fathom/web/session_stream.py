"""A watch or a log of a session: it ends with the session, and the session is in use while it is open."""

from __future__ import annotations

from typing import Any

from fathom.api.request import StreamSource
from fathom.web.sessions import Session


class SessionStream:
    def __init__(self, source: StreamSource, session: Session) -> None:
        self._source = source
        self._session = session
        self._over = False
        session.streams[id(self)] = self.close

    async def next(self) -> Any:
        """None once the session has ended, even if the source had more to say."""
        chunk = None if self._over else await self._source.next()
        if chunk is None or self._over:
            self.close()
            return None
        return chunk

    def close(self) -> None:
        self._over = True
        self._session.streams.pop(id(self), None)
        self._source.close()
