"""Paths that are not resources: health, version, metrics, discovery, OpenAPI."""

from __future__ import annotations

import platform
import sys

from fathom import __version__
from fathom.api.core import Core
from fathom.api.metrics import Metrics
from fathom.api.request import Request, Response
from fathom.kube.definitions import discovery, openapi
from fathom.kube.definitions.registry import Registry
from fathom.model.body import encode_json
from fathom.model.errors import method_not_allowed, no_such_path

# The Kubernetes release whose API fathom serves: clients choose features by it.
KUBERNETES = "v1.37.0"

DISCOVERY_V2 = "g=apidiscovery.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Paths:
    def __init__(self, core: Core, metrics: Metrics, registry: Registry | None = None) -> None:
        """`registry`: the kinds that are told of; None: all of the server's."""
        self._core = core
        self._registry = registry or core.registry
        self._metrics = metrics
        self._documents: dict[tuple[str, bool], bytes] = {}  # Made at registry revision `_documents_at`.
        self._documents_at = -1

    def serve(self, request: Request) -> Response:
        path = request.path.rstrip("/") or "/"
        if request.method not in {"GET", "HEAD"}:
            raise method_not_allowed("GET", "HEAD")
        if path.split("/")[1] in {"healthz", "livez", "readyz"}:
            return self._health(request, path)
        if path == "/version":
            return Response(status=200, body=encode_json(version()))
        if path == "/metrics":
            return Response(200, self._metrics.exposition(), "text/plain; version=0.0.4; charset=utf-8")
        if path == "/":
            return Response(status=200, body=encode_json({"paths": self._roots()}))
        if path.startswith("/openapi/v2"):
            return Response(200, openapi.EMPTY_V2, openapi.EMPTY_V2_TYPE)
        return self._document(request, path)

    def _document(self, request: Request, path: str) -> Response:
        """Discovery and OpenAPI documents are the same for all clients until a kind is added or removed."""
        registry = self._registry
        if self._documents_at != registry.revision:
            self._documents.clear()
            self._documents_at = registry.revision
        aggregated = path in {"/api", "/apis"} and _wants_aggregated(request)
        document = self._documents.get((path, aggregated))
        if document is None:
            document = self._make(path, aggregated=aggregated)
            self._documents[path, aggregated] = document
        return Response(
            status=200, body=document, content_type=AGGREGATED if aggregated else "application/json"
        )

    def _make(self, path: str, *, aggregated: bool) -> bytes:
        registry = self._registry
        if path == "/openapi/v3":
            return encode_json(openapi.index(registry))
        if path.startswith("/openapi/v3/"):
            document = openapi.document(registry, path.removeprefix("/openapi/v3/"))
        else:
            document = discovery.document(registry, path, aggregated=aggregated)
        if document is None:
            raise no_such_path()
        return encode_json(document)

    def _health(self, request: Request, path: str) -> Response:
        checks = {"ping": ""}  # Check -> its problem; '' if it passes.
        if not path.startswith("/livez"):
            checks |= {
                "store": self._store_problem(),
                "shutdown": "the server is stopping" if self._core.draining or self._core.stopping else "",
            }
        name = path.split("/", 2)[2:]
        if name:
            if name[0] not in checks:
                raise no_such_path()
            checks = {name[0]: checks[name[0]]}
        good = not any(checks.values())
        if good and "verbose" not in request.query:
            return Response(status=200, body=b"ok", content_type="text/plain; charset=utf-8")
        lines = [
            f"[-]{check} failed: {wrong}" if wrong else f"[+]{check} ok" for check, wrong in checks.items()
        ]
        lines.append(f"{path.split('/')[1]} check {'passed' if good else 'failed'}")
        body = "\n".join(lines).encode() + b"\n"
        return Response(200 if good else 500, body, "text/plain; charset=utf-8")

    def _store_problem(self) -> str:
        """Part of readyz only, not of livez: a restart would not repair the store."""
        cache = self._core.cache
        if cache.reached == 0:
            return "the store is still being read"
        return cache.problem or self._core.health.problem()

    def _roots(self) -> list[str]:
        kinds = [kind for kind in self._registry.kinds() if kind.group]
        served = {*(kind.group for kind in kinds), *(kind.api_version for kind in kinds)}
        fixed = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v3", "/readyz"]
        return sorted([*fixed, *(f"/apis/{path}" for path in served), "/version"])


def _wants_aggregated(request: Request) -> bool:
    accept = request.headers.get("accept", "")
    return any(DISCOVERY_V2 in choice and "v=v2;" in f"{choice};" for choice in accept.split(","))


def version() -> dict[str, str]:
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{KUBERNETES}+fathom.{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "python",
        "platform": f"{sys.platform}/{platform.machine()}",
    }
