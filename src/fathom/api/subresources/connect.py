"""`pods/exec`, `pods/attach` and `pods/portforward`: a WebSocket between the client and the agent.

    client ══ WebSocket ══ API server ══ the same bytes ══ agent ── program of the pod

Everything that can be refused is refused here, before the connection becomes a WebSocket, in words: kubectl
asks again by its older protocol if a WebSocket is refused, and shows the answer to that. So the reasons that
concern the pod come first, and that the older protocol is not served comes last.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from fathom.api.agent_connections import AgentAddress, ConnectAsk, address_of
from fathom.api.core import Call, Core
from fathom.api.named_ports import PORTS_MAX, port_of
from fathom.api.request import Request, UpgradeResponse
from fathom.api.subresources.log import container_of
from fathom.api.verbs.get import read
from fathom.model import causes
from fathom.model.errors import ApiError, Cause, bad_request, forbidden, invalid, unavailable
from fathom.model.objects import Key, Obj, labels_of, lookup, metadata, uid_of
from fathom.model.well_known import DRIVER_LABEL

COMMAND_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
SPDY = "SPDY/3.1+portforward.k8s.io"
PORT_PROTOCOLS = (SPDY, "portforward.k8s.io", "v4.channel.k8s.io")
KEY = re.compile(r"[A-Za-z0-9+/]{22}==")  # Sixteen bytes in base64.
STREAMS = ("stdin", "stdout", "stderr")


async def connect(core: Core, call: Call) -> UpgradeResponse:
    pod = (await read(core, call)).body.obj
    action, request = call.target.subresource, call.request
    call.audit.uid = uid_of(pod)
    if action == "portforward":
        container, options = "", _port_options(call, pod)
    else:
        container, options = _container_options(call, pod)
    _check_running(pod, container)
    at = _agent(core, pod)
    give_back = core.connections.take(call.caller.user.name, at.node)
    try:
        key, protocol = await _handshake(core, request, action, at)
        ask = ConnectAsk(
            action, call.namespace, str(metadata(pod)["name"]), uid_of(pod), container, options, key, protocol
        )
        tunnel, headers = await core.agents.connect(at, ask)
    except BaseException:
        give_back()
        raise
    return UpgradeResponse(tunnel, headers, ports_follow=protocol == SPDY, ended=give_back)


def _container_options(call: Call, pod: Obj) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The container, and what to do with it."""
    request, name = call.request, str(metadata(pod)["name"])
    container = _named_container(pod, request.param("container"))
    command = request.query.get("command", [])
    streams = [stream for stream in STREAMS if request.flag(stream)]
    is_exec = call.target.subresource == "exec"
    call.audit.container, call.audit.command = container, tuple(command)
    problems: list[Cause] = []
    if is_exec and not any(command):
        problems.append(causes.required("command"))
    if request.flag("tty") and "stderr" in streams:
        problems.append(causes.invalid("tty", value=True, detail="tty and stderr cannot both be true"))
    if not streams:
        problems.append(causes.forbidden("", "you must specify at least 1 of stdin, stdout, stderr"))
    if problems:
        kind = "PodExecOptions" if is_exec else "PodAttachOptions"
        raise invalid(group="", kind=kind, name=name, causes=problems)
    flags = [*streams, *(("tty",) if request.flag("tty") else ())]
    options = [(flag, "true") for flag in flags] + [("command", word) for word in command if is_exec]
    return container, tuple(options)


def _named_container(pod: Obj, requested: str) -> str:
    names = [
        str(container["name"])
        for field in ("initContainers", "containers")
        for container in lookup(pod, "spec", field) or ()
    ]
    if requested and requested not in names:
        known = " ".join(names)
        raise bad_request(
            f"container {requested} is not valid for pod {metadata(pod)['name']}, choose one of: [{known}]"
        )
    return container_of(pod, requested)


def _port_options(call: Call, pod: Obj) -> tuple[tuple[str, str], ...]:
    """The ports in the query; kubectl names its ports later, on the connection."""
    words = [word for value in call.request.query.get("ports", []) for word in value.split(",") if word]
    if len(words) > PORTS_MAX:
        raise bad_request(f"at most {PORTS_MAX} ports can be forwarded on one connection")
    for word in words:
        if not port_of(word):
            raise bad_request(f"ports must be numbers from 1 to 65535, not {word!r}")
    call.audit.ports = tuple(int(word) for word in words)
    return tuple(("ports", word) for word in words)


def _check_running(pod: Obj, container: str) -> None:
    name, phase = metadata(pod)["name"], lookup(pod, "status", "phase")
    if not lookup(pod, "spec", "nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    if phase in {"Succeeded", "Failed"}:
        raise bad_request(f"cannot connect to a container of a completed pod; current phase is {phase}")
    statuses = [
        status
        for field in ("containerStatuses", "initContainerStatuses")
        for status in lookup(pod, "status", field) or ()
    ]
    if container and not any(_is_running(status) for status in statuses if status.get("name") == container):
        raise bad_request(f"container {container} of pod {name} is not running")
    if not container and not any(map(_is_running, statuses)):
        raise bad_request(f"pod {name} is not running: none of its containers is")


def _is_running(status: Obj) -> bool:
    return lookup(status, "state", "running") is not None


def _agent(core: Core, pod: Obj) -> AgentAddress:
    node, name = lookup(pod, "spec", "nodeName"), metadata(pod)["name"]
    seen = core.cache.get("nodes", Key("", str(node)))
    if seen is None:
        raise unavailable(f"node {node} of pod {name} no longer exists")
    if labels_of(seen.obj).get(DRIVER_LABEL) == "simulated":
        raise bad_request(
            f"pod {name} runs no program to connect to: containers of node {node} are simulated"
        )
    return address_of(seen.obj)


async def _handshake(core: Core, request: Request, action: str, at: AgentAddress) -> tuple[str, str]:
    """The client's key, and the subprotocol to speak."""
    if not request.upgradable:
        await core.agents.page(at, "/healthz")  # An agent that is away is the more useful answer.
        raise _no_websocket(request, action)
    _check_origin(request)
    headers = request.headers
    if headers.get("sec-websocket-version") != "13":
        error = ApiError(426, "UpgradeRequired", "only version 13 of the WebSocket protocol is served")
        raise error
    key = headers.get("sec-websocket-key", "").strip()
    if not KEY.fullmatch(key):
        raise bad_request("Sec-WebSocket-Key must be sixteen bytes in base64")
    served = PORT_PROTOCOLS if action == "portforward" else COMMAND_PROTOCOLS
    offered = re.split(r"[,\n]", headers.get("sec-websocket-protocol", ""))
    for protocol in map(str.strip, offered):
        if protocol in served:
            return key, protocol
    raise bad_request(f"Sec-WebSocket-Protocol must name one of {', '.join(served)}")


def _no_websocket(request: Request, action: str) -> ApiError:
    wanted = request.headers.get("upgrade", "")
    if not wanted:
        return bad_request(f"Upgrade request required: {action} is served over WebSocket")
    since = "1.31" if action == "portforward" else "1.30"
    return bad_request(
        f"{action} is served over WebSocket only, not over {wanted[:50]!r}: use kubectl {since} or later, "
        "without KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false or KUBECTL_PORT_FORWARD_WEBSOCKETS=false"
    )


def _check_origin(request: Request) -> None:
    """A browser that holds a client certificate shows it for every page, so a page of another site could
    open a connection in its user's name; but the browser says from where the page is."""
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    if not origin:
        return
    parts = urlsplit(origin)
    default = {"https": ":443", "http": ":80"}.get(parts.scheme, "")
    if parts.netloc.lower().removesuffix(default) != host.lower().removesuffix(default):
        raise forbidden(f"a page of {origin[:100]!r} may not connect here")
