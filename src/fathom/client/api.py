"""The API as deciding code sees it: reads that raise, writes whose outcome is a value, watches in chunks.

Every request goes through a `Transport`: a Seam when the caller runs on a Domain (live, simulated, replayed),
or a server in the same process. Every call has a deadline.
"""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec

from fathom.client.outcomes import Outcome, outcome_of
from fathom.kinds.definition import KindDefinition
from fathom.kinds.shape import GROUP, VERSION
from fathom.model.body import decode_json, encode_json
from fathom.model.errors import ApiError, unavailable
from fathom.model.media_types import MERGE_PATCH
from fathom.model.objects import Obj
from fathom.model.resource import Resource as Resource  # noqa: PLC0414  # Callers name it with Api.
from fathom.model.well_known import ACTOR_HEADER, DECISION_HEADER
from fathom.seams.seam import Ask, Reply, Stream

TIMEOUT_S = 10.0
LIST_TIMEOUT_S = 60.0
PAGE_OBJECTS = 500  # client-go's.


class Transport(Protocol):
    async def request(self, ask: Ask, *, timeout_s: float) -> Reply: ...

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply: ...


def own_resource(definition: KindDefinition) -> Resource:
    """The resource of one of fathom's own kinds."""
    return Resource(GROUP, VERSION, definition.plural, definition.namespaced)


class ListPage(msgspec.Struct, frozen=True):
    items: list[Obj]
    revision: int
    token: str = ""  # '' on the last page.


class Api:
    def __init__(self, transport: Transport, *, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self._transport = transport
        self._headers = headers  # Sent with every call: our identity, the fence we hold.

    def with_headers(self, *headers: tuple[str, str]) -> Api:
        return Api(self._transport, headers=(*self._headers, *headers))

    def with_decision(self, id_: str) -> Api:
        """For the writes that carry out a recorded decision."""
        return self.with_headers((DECISION_HEADER, id_))

    def with_actor(self, actor: str) -> Api:
        """For the writes of one part of the process; audit entries name it."""
        others = tuple(header for header in self._headers if header[0] != ACTOR_HEADER)
        return Api(self._transport, headers=(*others, (ACTOR_HEADER, actor)))

    def with_user_agent(self, agent: str) -> Api:
        """For requests that audit entries should tell apart from others of this client."""
        others = tuple(header for header in self._headers if header[0] != "user-agent")
        return Api(self._transport, headers=(*others, ("user-agent", agent)))

    # Reads: the object, or the server's error raised as an ApiError.

    async def get(self, resource: Resource, namespace: str, name: str, subresource: str = "") -> Obj | None:
        """None if there is no such object."""
        try:
            return await self._read(resource.path(namespace, name, subresource), TIMEOUT_S)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def resources(self, group: str, version: str) -> list[Obj]:
        """The resources of one version of a group, as discovery lists them: 'widgets', 'widgets/scale'."""
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return list((await self._read(root, TIMEOUT_S)).get("resources") or ())

    async def page(self, path: str) -> str:
        """A page that is no object, as text: '/metrics/scheduler'."""
        reply = await self._transport.request(Ask("GET", path, headers=self._headers), timeout_s=TIMEOUT_S)
        if reply.status != 200:
            raise _refused(reply)
        return _text(reply.body)

    async def list_page(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        token: str = "",
        limit: int = PAGE_OBJECTS,
        **options: str,
    ) -> ListPage:
        query = {**options, "limit": str(limit)} if limit else dict(options)
        if token:
            query["continue"] = token
        answer = await self._read(f"{resource.path(namespace)}?{urlencode(query)}", LIST_TIMEOUT_S)
        meta = answer.get("metadata") or {}
        items = _named_items(answer)
        return ListPage(items, int(meta.get("resourceVersion") or 0), meta.get("continue") or "")

    async def watch(self, resource: Resource, namespace: str = "", **options: str) -> Stream:
        """Chunks of whole lines; see `client.events`. Raises ApiError where the server refuses."""
        target = f"{resource.path(namespace)}?{urlencode({'watch': 'true', **options})}"
        opened = await self._transport.open(Ask("GET", target, headers=self._headers), timeout_s=TIMEOUT_S)
        if isinstance(opened, Reply):
            raise _refused(opened)
        return opened

    # Writes: the outcome as a value.

    async def create(self, resource: Resource, namespace: str, obj: Obj, subresource: str = "") -> Outcome:
        name = (obj.get("metadata") or {}).get("name", "") if subresource else ""
        return await self._write("POST", resource.path(namespace, name, subresource), obj)

    async def update(self, resource: Resource, namespace: str, obj: Obj, subresource: str = "") -> Outcome:
        name = (obj.get("metadata") or {}).get("name", "")
        return await self._write("PUT", resource.path(namespace, name, subresource), obj)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Obj | list[Obj],
        *,
        subresource: str = "",
        media: str = MERGE_PATCH,
    ) -> Outcome:
        return await self._write("PATCH", resource.path(namespace, name, subresource), patch, media)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str,
        revision: str = "",
        policy: str = "Background",
        grace_s: int | None = None,
    ) -> Outcome:
        """The UID is required: a new object of the same name must not be deleted. `revision`: delete only at
        this one; '' is any. `grace_s`: 0 deletes at once, even if an agent still runs it; None is the kind's
        default."""
        preconditions = {"uid": uid, **({"resourceVersion": revision} if revision else {})}
        options: Obj = {"propagationPolicy": policy, "preconditions": preconditions}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        return await self._write("DELETE", resource.path(namespace, name), options)

    async def _read(self, target: str, timeout_s: float) -> Obj:
        reply = await self._transport.request(Ask("GET", target, headers=self._headers), timeout_s=timeout_s)
        if reply.status != 200:
            raise _refused(reply)
        return object_in(reply.body)

    async def _write(self, method: str, target: str, body: Any, media: str = "application/json") -> Outcome:
        headers = (*self._headers, ("content-type", media))
        ask = Ask(method, target, encode_json(body), headers)
        reply = await self._transport.request(ask, timeout_s=TIMEOUT_S)
        if reply.status == 0:
            return outcome_of(0, {}, cause=_text(reply.body))
        return outcome_of(reply.status, object_in(reply.body), audit_id=reply.audit_id)


def _named_items(answer: Obj) -> list[Obj]:
    """A typed list omits its items' kind; caches and deciding code need it."""
    kind, version = str(answer.get("kind", "")).removesuffix("List"), answer.get("apiVersion", "")
    items: list[Obj] = answer.get("items") or []
    for item in items:
        item.setdefault("kind", kind)
        item.setdefault("apiVersion", version)
    return items


def _refused(reply: Reply) -> ApiError:
    if reply.status == 0:
        return unavailable(_text(reply.body))
    status = object_in(reply.body)
    return ApiError(
        reply.status, str(status.get("reason") or ""), str(status.get("message") or f"HTTP {reply.status}"),
        details=status.get("details") if isinstance(status.get("details"), dict) else None,
    )  # fmt: skip


def object_in(body: Any) -> Obj:
    """The object in an answer. One that is no JSON object (a proxy's error page) is shown as text."""
    if isinstance(body, dict):
        return body
    try:
        obj = decode_json(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"message": _text(body)[:200]}
    return obj if isinstance(obj, dict) else {"message": _text(body)[:200]}


def _text(body: Any) -> str:
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
