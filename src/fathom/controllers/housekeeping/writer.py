"""Sends the writes of one housekeeping controller. Each write carries out a recorded decision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fathom.client.local import LocalClient
from fathom.client.outcomes import Committed, outcome_of
from fathom.control.decision_log import DecisionLog, reporting
from fathom.model.cause import WakeCause
from fathom.model.decision import Subject
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, metadata
from fathom.model.well_known import ACTOR_HEADER, DECISION_HEADER

ACCOUNT = "housekeeping"
VERDICTS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@contextmanager
def ignored(*codes: int) -> Iterator[None]:
    """Ignore these answers: the object is gone, or another server was faster."""
    try:
        yield
    except ApiError as error:
        if error.code not in codes:
            raise


class HousekeepingWriter:
    def __init__(self, client: LocalClient, decisions: DecisionLog, name: str) -> None:
        """`name`: of the controller, as the audit log has it: 'garbage-collector'."""
        self._client = client
        self._actor = f"{ACCOUNT}/{name}"
        self._decisions = decisions.of(self._actor)

    async def read(self, path: str) -> Obj | None:
        """None if there is no such object."""
        try:
            return await self._client.call("GET", path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def write(
        self,
        method: str,
        path: str,
        subject: Subject,
        *,
        cause: WakeCause,
        why: str,
        query: str = "",
        body: Obj | None = None,
        content_type: str = "application/json",
    ) -> Obj:
        """The answer as an object. Any error answer is raised as an ApiError."""
        id_ = self._decisions.decided(VERDICTS[method], subject, cause=cause, why=why)
        return await self._send(id_, method, path, subject, query, body, content_type)

    async def report(self, path: str, event: Obj, subject: Subject, *, cause: WakeCause, why: str) -> Obj:
        """Create an Event about the subject, which names the decision that it reports."""
        id_ = self._decisions.decided("report", subject, cause=cause, why=why)
        meta = metadata(event)
        written = Subject("events", str(meta["namespace"]), str(meta["name"]))
        return await self._send(id_, "POST", path, written, "", reporting(event, id_), "application/json")

    async def _send(  # noqa: PLR0917
        self,
        id_: str,
        method: str,
        path: str,
        subject: Subject,
        query: str,
        body: Obj | None,
        content_type: str,
    ) -> Obj:
        headers = {DECISION_HEADER: id_, ACTOR_HEADER: self._actor}
        try:
            answer = await self._client.call(
                method, path, query=query, body=body, content_type=content_type, headers=headers
            )
        except ApiError as error:
            self._decisions.concluded(id_, outcome_of(error.code, error.status()), subject)
            error.decision = id_
            raise
        self._decisions.concluded(id_, Committed(answer), subject)
        return answer

    async def expire(self, path: str, *, uid: str) -> None:
        """Delete an Event: they are news, and no decision is recorded for them."""
        body = {"preconditions": {"uid": uid}}
        await self._client.call("DELETE", path, body=body, headers={ACTOR_HEADER: self._actor})
