"""Read what a request is about off its method and path.

/api/v1/namespaces/NS/pods/NAME/SUBRESOURCE     the core group
/apis/GROUP/VERSION/PLURAL/NAME                 a named group, cluster-scoped
"""

from __future__ import annotations

from urllib.parse import unquote

from fathom.api.request import Request, RequestTarget

COLLECTIONS = frozenset({"list", "watch", "deletecollection"})
# Connections into pods. Kubernetes' clients send a GET for a WebSocket and a POST for the older protocol;
# what they can do then is the same, so both are authorized as `create`: who may only `get` runs no commands.
CONNECTIONS = frozenset({"attach", "exec", "portforward"})

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def target_of(request: Request) -> RequestTarget:
    path = request.path
    if path.startswith("/api/"):
        parts = path[5:].rstrip("/").split("/")
        group, rest = "", parts
    elif path.startswith("/apis/"):
        parts = path[6:].rstrip("/").split("/")
        group, rest = parts[0], parts[1:]
    else:
        return RequestTarget(verb=request.method.lower(), path=path)
    if len(rest) < 2 or not all(rest):  # Discovery, or nonsense such as //.
        return RequestTarget(verb=request.method.lower(), path=path)
    return _resource(request, group, rest[0], rest[1:])


def _resource(request: Request, group: str, version: str, parts: list[str]) -> RequestTarget:
    if "%" in request.path:
        parts = [unquote(part) for part in parts]
    namespace = ""
    # /namespaces/NAME and its own subresources are about the namespace; anything longer is inside it.
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in {"status", "finalize"}:
        namespace, parts = parts[1], parts[2:]
    plural = parts[0]
    name = parts[1] if len(parts) > 1 else ""
    subresource = "/".join(parts[2:])
    if subresource.startswith("proxy/"):
        subresource = "proxy"  # As Kubernetes authorizes it: the rest is the proxied path.
    if plural == "namespaces":
        namespace = name
    verb, node = _verb(request, name), ""
    if verb in {"get", "watch"} and subresource in CONNECTIONS and plural == "pods" and not group:
        verb = "create"
    if verb in COLLECTIONS and request.query:
        name = name or _selected(request, "metadata.name")
        node = _selected(request, "spec.nodeName")
    return RequestTarget(
        verb=verb,
        path=request.path,
        group=group,
        version=version,
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
        node=node,
    )


def _verb(request: Request, name: str) -> str:
    if request.method in {"GET", "HEAD"}:
        if request.query and request.flag("watch"):
            return "watch"
        return "get" if name else "list"
    if request.method == "DELETE" and not name:
        return "deletecollection"
    return _VERBS.get(request.method, request.method.lower())


def _selected(request: Request, field: str) -> str:
    """The one value to which a field selector restricts a field, else ''. A collection restricted to one name
    is authorized as that object, so a role for that object is enough; one restricted to a node, as that
    node's."""
    text = request.param("fieldSelector")
    if not text or "\\" in text:  # An escaped comma is part of a value: it cannot be split here.
        return ""
    terms = text.split(",")
    values = [term.removeprefix(f"{field}=") for term in terms if term.startswith(f"{field}=")]
    return values[0].removeprefix("=") if len(values) == 1 else ""
