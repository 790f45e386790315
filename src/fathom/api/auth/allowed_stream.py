"""A watch, a log or a connection that only break-glass allowed: it ends with the override.

Each request is judged once, at its start. A stream lasts, so it is judged again before each chunk: what is
read after the end of the override is not sent.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.api.auth.authorize import Authorizer
from fathom.api.request import Answer, RequestTarget, StreamResponse, StreamSource, UpgradeResponse
from fathom.model.user import User


class AllowedStream:
    def __init__(
        self, source: StreamSource, authorizer: Authorizer, user: User, target: RequestTarget
    ) -> None:
        self._source = source
        self._authorizer = authorizer
        self._user, self._target = user, target

    async def next(self) -> Any:
        chunk = await self._source.next()
        if chunk is None or self._authorizer.authorize(self._user, self._target).allowed:
            return chunk
        self.close()
        return None

    def close(self) -> None:
        self._source.close()


def while_allowed(answer: Answer, authorizer: Authorizer, user: User, target: RequestTarget) -> Answer:
    if isinstance(answer, UpgradeResponse):
        answer.may_continue = lambda: authorizer.authorize(user, target).allowed
    if not isinstance(answer, StreamResponse):
        return answer
    return msgspec.structs.replace(answer, source=AllowedStream(answer.source, authorizer, user, target))
