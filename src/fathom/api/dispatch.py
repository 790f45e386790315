"""The table from a request's verb and resource to the function that serves it.

A table, so that discovery and tests can read what is supported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from fathom.api import resource_usage
from fathom.api.auth import reviews
from fathom.api.auth.authenticate import Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.node_writes import restrict_node
from fathom.api.binding.binder import Binder
from fathom.api.core import Call, Core
from fathom.api.field_owners import is_apply
from fathom.api.process_pages import serve_node_page
from fathom.api.request import Answer, RequestTarget, Response
from fathom.api.subresources.binding import bind, bind_batch, decode_batch
from fathom.api.subresources.connect import connect
from fathom.api.subresources.connection import get_connection
from fathom.api.subresources.eviction import evict
from fathom.api.subresources.finalize import finalize
from fathom.api.subresources.log import log
from fathom.api.subresources.scale import get_scale, patch_scale, put_scale
from fathom.api.target import COLLECTIONS
from fathom.api.target import CONNECTIONS as CONNECTIONS_INTO_PODS
from fathom.api.verbs import bodies
from fathom.api.verbs.apply import apply
from fathom.api.verbs.create import create
from fathom.api.verbs.delete import delete, delete_collection
from fathom.api.verbs.get import get, read
from fathom.api.verbs.list import list_
from fathom.api.verbs.update import patch, put
from fathom.api.verbs.watch import watch
from fathom.api.views import NoViews, Views
from fathom.kinds.binding_batch import BATCHES
from fathom.kinds.node_connection import CONNECTIONS
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.kinds.shape import GROUP as OWN_GROUP
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry
from fathom.model.accounts import HOUSEKEEPING
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, method_not_allowed, no_such_path, not_supported

Verb = Callable[[Core, Call], Awaitable[Answer]]

VERBS: dict[str, Verb] = {
    "get": get,
    "list": list_,
    "watch": watch,
    "create": create,
    "update": put,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}

SUBRESOURCES: dict[tuple[str, str], Verb] = {
    ("status", "get"): get,
    ("status", "update"): put,
    ("status", "patch"): patch,
    ("approval", "get"): get,
    ("approval", "update"): put,
    ("approval", "patch"): patch,
    ("scale", "get"): get_scale,
    ("scale", "update"): put_scale,
    ("scale", "patch"): patch_scale,
    ("eviction", "create"): evict,
    ("finalize", "update"): finalize,
    ("log", "get"): log,
    **{(name, "create"): connect for name in CONNECTIONS_INTO_PODS},
}

# Subresources that are not in the table: their functions need more than a call.
ELSEWHERE = (("token", "create"), ("binding", "create"))

READING = frozenset({"get", "list", "watch"})

# Verbs on one object; the others are on a collection.
OF_ONE = frozenset({"get", "update", "patch", "delete"})
METHODS = {
    "get": "GET", "list": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE",
    "deletecollection": "DELETE",
}  # fmt: skip

# Known to Kubernetes' clients and not supported here: the answer says so instead of a puzzling 404.
UNSUPPORTED = {
    "proxy": "proxying to pods, services and nodes",
    "ephemeralcontainers": "ephemeral containers",
    "resize": "in-place resize",
}


def kind_for(registry: Registry, target: RequestTarget) -> Kind:
    kind = registry.find(target.group, target.version, target.plural)
    if kind is None or (target.namespace and not kind.namespaced and target.plural != "namespaces"):
        raise no_such_path()
    if kind.namespaced and not target.namespace and target.verb not in {"list", "watch"}:
        # deletecollection over all namespaces, or a namespaced object requested without its namespace.
        raise _not_allowed(kind, target) if not target.name else no_such_path()
    return kind


def _is_misplaced(target: RequestTarget) -> bool:
    """A verb on one object sent to a collection, or the reverse. A list, watch or deletecollection may carry
    a name: that of the one object it selects."""
    return target.verb not in COLLECTIONS and bool(target.name) != (target.verb in OF_ONE)


def _not_allowed(kind: Kind, target: RequestTarget) -> ApiError:
    """A 405 with the methods that the path supports. Over all namespaces, only list is."""
    of_one = bool(target.name) and target.verb not in COLLECTIONS
    verbs = {verb for verb in kind.verbs if verb in METHODS and (verb in OF_ONE) == of_one}
    if kind.namespaced and not target.namespace:
        verbs &= {"list"}
    return method_not_allowed(*{METHODS[verb] for verb in verbs})


class Dispatch:
    def __init__(
        self, core: Core, authorizer: Authorizer, authenticator: Authenticator, views: Views | None = None
    ) -> None:
        self._core = core
        self._views = views or NoViews()
        self._authorizer = authorizer
        self._authenticator = authenticator
        self._binder = Binder(core)

    async def serve(self, call: Call) -> Answer:
        target, kind = call.target, call.kind
        self._refuse_write(call)
        if target.subresource:
            return await self._subresource(call)
        if kind.group == resource_usage.GROUP:
            return await resource_usage.serve_usage(self._core, call)
        if kind.virtual and kind.group == OWN_GROUP:
            return await self._views.serve(call)
        if kind.virtual:
            return self._review(call)
        if kind.resource == BATCHES and target.verb == "create" and not target.name:
            return await self._bind_batch(call)
        if kind.resource == CONNECTIONS and target.verb == "get":
            return await get_connection(self._core, call)
        verb = VERBS.get(target.verb)
        if verb is None or target.verb not in kind.verbs or _is_misplaced(target):
            raise _not_allowed(kind, target)
        if verb is put:
            return await put(self._core, call, self._require_create)
        if verb is patch and is_apply(call.request):
            return await apply(self._core, call, self._require_create)
        return await verb(self._core, call)

    def _require_create(self, call: Call) -> None:
        wanted = msgspec.structs.replace(call.target, verb="create")
        self._authorizer.require(call.caller.user, wanted)

    def _refuse_write(self, call: Call) -> None:
        """Raises 405 where this server takes none but its own. Questions are no writes."""
        why = self._core.read_only
        if not why or call.target.verb in READING or call.kind.virtual:
            return
        if call.caller.user.name != HOUSEKEEPING:
            raise ApiError(405, "MethodNotAllowed", why)

    async def _subresource(self, call: Call) -> Answer:
        name, verb = call.target.subresource, call.target.verb
        if name == "proxy" and call.kind.resource == "nodes" and verb == "get":
            return await serve_node_page(self._core, call)
        if name.split("/")[0] in UNSUPPORTED:
            raise not_supported(UNSUPPORTED[name.split("/")[0]])
        if name not in call.kind.subresources:
            raise no_such_path()
        if name == "token" and verb == "create":
            return await self._token(call)
        if name == "binding" and verb == "create":
            return await bind(self._core, call, self._binder)
        handler = SUBRESOURCES.get((name, verb))
        if handler is None:
            raise method_not_allowed(
                *(
                    METHODS[allowed]
                    for subresource, allowed in (*SUBRESOURCES, *ELSEWHERE)
                    if subresource == name
                ),
                *(("GET",) if name in CONNECTIONS_INTO_PODS else ()),
            )
        if handler is patch and is_apply(call.request):
            return await apply(self._core, call, self._require_create)
        return await handler(self._core, call)

    async def _bind_batch(self, call: Call) -> Response:
        """Permission to send batches covers all namespaces; permission to bind is checked for each namespace
        in it."""
        asks = decode_batch(self._core, call)
        for namespace in dict.fromkeys(ask.namespace for ask in asks):
            wanted = msgspec.structs.replace(
                call.target, group="", version="v1", plural="pods", subresource="binding", namespace=namespace
            )
            self._authorizer.require(call.caller.user, wanted)
        return await bind_batch(self._core, call, self._binder, asks)

    def _review(self, call: Call) -> Response:
        if call.target.verb != "create":
            raise method_not_allowed("POST")
        obj = bodies.decode(self._core, call)
        answered = reviews.review(
            call.kind, obj, call.caller.user, self._authorizer, self._authenticator, call.namespace
        )
        return Response(status=201, body=encode_json(answered))

    async def _token(self, call: Call) -> Response:
        account = (await read(self._core, call)).body.obj
        kind = self._core.registry.by_gvk("authentication.k8s.io", "v1", "TokenRequest")
        if kind is None:
            raise no_such_path()
        obj = bodies.decode(self._core, call, kind)
        restrict_node(call.caller.user, call.target, obj, None, self._core.cache)
        issued = self._authenticator.issue_for(account, obj, override=self._under_break_glass(call))
        return Response(status=201, body=encode_json(issued))

    def _under_break_glass(self, call: Call) -> SchedulerOverride | None:
        """The override that alone allows the request."""
        glass = self._authorizer.break_glass
        if glass is None or not call.audit.break_glass:
            return None
        return glass.active_for(call.caller.user, call.namespace)
