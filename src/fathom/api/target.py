"""Read what a request is about off its method and path.

/api/v1/namespaces/NS/pods/NAME/SUBRESOURCE     the core group
/apis/GROUP/VERSION/PLURAL/NAME                 a named group, cluster-scoped
"""

from __future__ import annotations

from urllib.parse import unquote

from fathom.api.request import Request, Target

COLLECTIONS = frozenset({"list", "watch", "deletecollection"})

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def target_of(request: Request) -> Target:
    path = request.path
    if path.startswith("/api/"):
        parts = path[5:].rstrip("/").split("/")
        group, rest = "", parts
    elif path.startswith("/apis/"):
        parts = path[6:].rstrip("/").split("/")
        group, rest = parts[0], parts[1:]
    else:
        return Target(verb=request.method.lower(), path=path)
    if len(rest) < 2 or not all(rest):  # Discovery, or nonsense such as //.
        return Target(verb=request.method.lower(), path=path)
    return _resource(request, group, rest[0], rest[1:])


def _resource(request: Request, group: str, version: str, parts: list[str]) -> Target:
    if "%" in request.path:
        parts = [unquote(part) for part in parts]
    namespace = ""
    # /namespaces/NAME and its own subresources are about the namespace; anything longer is inside it.
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in {"status", "finalize"}:
        namespace, parts = parts[1], parts[2:]
    plural = parts[0]
    name = parts[1] if len(parts) > 1 else ""
    subresource = "/".join(parts[2:])
    if plural == "namespaces":
        namespace = name
    verb = _verb(request, name)
    if verb in COLLECTIONS and request.query:
        name = name or _selected_name(request)
    return Target(
        verb=verb,
        path=request.path,
        group=group,
        version=version,
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
    )


def _verb(request: Request, name: str) -> str:
    if request.method in {"GET", "HEAD"}:
        if request.query and request.flag("watch"):
            return "watch"
        return "get" if name else "list"
    if request.method == "DELETE" and not name:
        return "deletecollection"
    return _VERBS.get(request.method, request.method.lower())


def _selected_name(request: Request) -> str:
    """A collection of one, chosen by name, is authorized as that object: a role for it is enough."""
    terms = request.param("fieldSelector").split(",")
    names = [term.removeprefix("metadata.name=") for term in terms if term.startswith("metadata.name=")]
    return names[0].removeprefix("=") if len(names) == 1 else ""
