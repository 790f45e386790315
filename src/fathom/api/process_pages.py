"""`/metrics/NAME`, `/healthz/NAME`, …: pages of other control plane processes, served by the API server.

The API server requests the page from the process, for users that may read the path.

    /metrics/scheduler                     by part, by process, or by the name of one of several
    /api/v1/nodes/node-1/proxy/metrics     a node's agent: as a kubelet's metrics are read in Kubernetes
"""

from __future__ import annotations

from fathom.api.agent_connections import AgentAddress, address_of
from fathom.api.core import Call, Core
from fathom.api.request import Request, Response
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.errors import (
    bad_request,
    method_not_allowed,
    no_such_path,
    not_found,
    not_supported,
    unavailable,
)
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.processes import CERTIFICATE, PREFIX, named, short_name
from fathom.model.resource_names import SLICES

PAGES = ("metrics", "healthz", "livez", "readyz")
# Checks of the API server's own health, and what Kubernetes has under /metrics: never names of processes.
OWN = frozenset({"ping", "store", "shutdown", "slis"})
TYPE = {"metrics": "text/plain; version=0.0.4; charset=utf-8"}


def page_of(path: str) -> tuple[str, str] | None:
    """The page and the process; None: the path is about something else."""
    parts = path.strip("/").split("/")
    if len(parts) != 2 or parts[0] not in PAGES or parts[1] in OWN:
        return None
    return parts[0], parts[1]


async def serve_process_page(core: Core, request: Request, page: tuple[str, str]) -> Response:
    if request.method not in {"GET", "HEAD"}:
        raise method_not_allowed("GET", "HEAD")
    path, name = page
    slices = [seen.obj for seen in core.cache.list(SLICES, SYSTEM_NAMESPACE)]
    matches = named(
        [
            endpoint_slice
            for endpoint_slice in slices
            if str(metadata(endpoint_slice)["name"]).startswith(PREFIX)
        ],
        name,
    )
    if not matches:
        raise no_such_path()
    if len(matches) > 1:
        names = ", ".join(f"/{path}/{short_name(endpoint_slice)}" for endpoint_slice in matches)
        raise bad_request(f"there are {len(matches)} processes named {name}, request one of them: {names}")
    return await _fetched(core, process_address(matches[0]), path)


async def serve_node_page(core: Core, call: Call) -> Response:
    """Of `nodes/NAME/proxy/…`, only these pages are served: an agent accepts no other requests."""
    path = call.request.path.rstrip("/").rpartition("/proxy/")[2]
    if path not in {"metrics", "healthz"}:
        raise not_supported("proxying to nodes, except for /proxy/metrics and /proxy/healthz")
    node = core.cache.get("nodes", Key("", call.target.name))
    if node is None:
        raise not_found("nodes", call.target.name)
    return await _fetched(core, address_of(node.obj), path)


async def _fetched(core: Core, at: AgentAddress, path: str) -> Response:
    status, body = await core.agents.page(at, f"/{path}")
    return Response(status, body, TYPE.get(path, "text/plain; charset=utf-8"))


def process_address(slice_: Obj) -> AgentAddress:
    """Raises ApiError if the slice lacks an address, port or certificate."""
    name = short_name(slice_)
    certificate = str((metadata(slice_).get("annotations") or {}).get(CERTIFICATE, ""))
    endpoints, ports = lookup(slice_, "endpoints") or [{}], lookup(slice_, "ports") or [{}]
    addresses, port = endpoints[0].get("addresses") or (), ports[0].get("port") or 0
    if not certificate or not addresses or not port:
        raise unavailable(
            f"EndpointSlice {PREFIX}{name} lacks the address, port or certificate of the process"
        )
    return AgentAddress(name, str(addresses[0]), int(port), certificate, "the process")
