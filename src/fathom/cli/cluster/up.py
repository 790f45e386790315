"""`fathom up`: a working cluster on this machine, in one command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from cyclopts import Parameter
from cyclopts.validators import Number

from fathom.cli.cluster.agents import AllowHostIds, host_ids_of
from fathom.cli.cluster.serve import (
    DEFAULT_PORT,
    DEFAULT_SERVICES,
    Admission,
    Data,
    Host,
    NewStore,
    PageHost,
    Port,
    ServiceCidr,
    Store,
    make_new_store,
    service_addresses,
)
from fathom.cli.data_directory import checked
from fathom.cli.places import DEFAULT_DATA
from fathom.cli.problem import Problem
from fathom.private_files import NotOurs, make_directory

ZONES = ("zone-a", "zone-b", "zone-c")
DEFAULT_NODES = 3
NAMES_MAX = 5  # Of pods in a line.


def up(
    *,
    data: Data = DEFAULT_DATA,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    store: Store = None,
    nodes: Annotated[
        int, Parameter(validator=Number(gte=0, lte=1000), help="Number of nodes.")
    ] = DEFAULT_NODES,
    zones: Annotated[str, Parameter(help="Zones that the nodes are spread over, in turn: A,B,…")] = ",".join(
        ZONES
    ),
    region: Annotated[
        str,
        Parameter(
            help="Region of all nodes. Default: by the zone's name: eu-west-a is in eu-west, others in local."
        ),
    ] = "",
    driver: Annotated[
        Literal["process", "simulated"],
        Parameter(
            help="process: containers are real processes. simulated: containers only follow a script, for"
            " large clusters on a small machine."
        ),
    ] = "process",
    images: Annotated[
        Path | None,
        Parameter(help="TOML file that says which command runs for which image (docs/agents.md)."),
    ] = None,
    new_store: NewStore = False,
    allow_host_ids: AllowHostIds = "",
    service_cidr: ServiceCidr = DEFAULT_SERVICES,
    admission: Admission = (),
    page_host: PageHost = (),
    traces: Annotated[
        str,
        Parameter(
            help="URL of an OpenTelemetry collector (OTLP over HTTP), such as http://127.0.0.1:4318, to which"
            " every process sends spans (docs/traces.md)."
        ),
    ] = "",
) -> None:
    """Start a cluster on this machine: API server, scheduler, controllers, agents and gateway.

    Writes the kubeconfig to --data, and prints `ready` when every node is ready. Ctrl-C stops the cluster but
    not its pods: the next `fathom up` with the same --data adopts them.

    fathom up
    fathom up --nodes 6 --zones eu-west-a,eu-west-b --data ./other --port 7443
    fathom up --store etcd://127.0.0.1:2379
    """
    from fathom.supervise import Busy, PartNotStarted  # noqa: PLC0415  # Only this command pays for it.

    wanted = _zones(zones)
    _check_region(region)
    service_addresses(service_cidr)
    _check_images(images)
    _ask_for_traces(traces)
    host_ids_of(allow_host_ids)  # Checked here, as zones: agents would report it at every restart.
    os.umask(0o077)  # No other user may read keys, nor Secrets in the store.
    data = checked(data.absolute())
    try:
        make_directory(data)
    except NotOurs as error:
        raise Problem(str(error)) from error
    if new_store:  # Here and once: a restarted API server must not begin empty.
        make_new_store(data, store)
    api = ["--data", str(data), "--host", host, "--port", str(port or _free_port(host))]
    api += ["--store", store] if store else []
    api += ["--service-cidr", service_cidr]
    api += [word for plugin in admission for word in ("--admission", plugin)]
    api += [word for name in page_host for word in ("--page-host", name)]
    agents = ["--nodes", str(nodes), "--zones", ",".join(wanted), "--driver", driver]
    agents += ["--region", region] if region else []
    agents += ["--images", str(images.absolute())] if images else []
    agents += ["--allow-host-ids", allow_host_ids] if allow_host_ids else []
    try:
        asyncio.run(_run(data, nodes=nodes, api=api, agents=agents))
    except Busy as error:
        raise Problem(str(error)) from error
    except PartNotStarted as error:  # The part's last log line is written for users.
        raise Problem(str(error).removeprefix("fathom: error: ")) from error


def _ask_for_traces(url: str) -> None:
    """By the environment, which all parts inherit, and which says everything else about traces too."""
    from fathom.traces.settings import ENDPOINT, HOW_TO_INSTALL, OVERRULED, is_installed  # noqa: PLC0415

    if not url:
        return
    address = urlsplit(url)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise Problem(f"--traces must be the URL of a collector, http://HOST:4318, not {url!r}")
    if not is_installed():
        raise Problem(f"--traces: {HOW_TO_INSTALL}")
    os.environ[ENDPOINT] = url
    for name in OVERRULED:
        os.environ.pop(name, None)


def _zones(text: str) -> list[str]:
    """Checked here: agents would report the error too, but at every restart."""
    from fathom.model.formats import label_value  # noqa: PLC0415

    zones = [zone.strip() for zone in text.split(",")]
    if not all(zones):
        raise Problem(f"--zones must read A,B,…, not {text!r}")
    for zone in zones:
        if problems := label_value(zone):
            raise Problem(f"--zones: {zone!r} is not a valid zone name: {problems[0]}")
    return zones


def _check_region(region: str) -> None:
    from fathom.model.formats import label_value  # noqa: PLC0415

    if problems := label_value(region):
        raise Problem(f"--region: {region!r} is not a valid region name: {problems[0]}")


def _check_images(images: Path | None) -> None:
    from fathom.agent.host.images import BadImages, read_images  # noqa: PLC0415

    try:
        if images is not None:
            read_images(images)
    except BadImages as error:
        raise Problem(str(error)) from error


def _free_port(host: str) -> int:
    """Any free port, chosen once: a restarted API server keeps it, because the other parts know it."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


async def _run(data: Path, *, nodes: int, api: list[str], agents: list[str]) -> None:
    from fathom.supervise import Part, Supervisor, python  # noqa: PLC0415

    keys = data / "credentials"
    deciders = ("--scheduler", str(keys / "scheduler"), "--controllers", str(keys / "controllers"))
    table = str(data / "gateway.json")
    gateway = ("--kubeconfig", str(keys / "gateway"), "--remember", table, "--data", str(data))
    parts = [
        Part("deciders", python("serve", "deciders", *deciders, "--data", str(data))),
        Part("gateway", python("serve", "gateway", *gateway), keeps_sockets=True),
    ]
    if nodes:
        parts.append(Part("agents", python("serve", "agent", *agents, "--up", str(data))))
    await Supervisor(
        data,
        api=Part("api", python("serve", "api", *api)),
        others=parts,
        nodes=nodes,
        out=sys.stdout,
        when_ready=lambda: [*page_lines(data / "kubeconfig"), *_next_lines()],
        when_stopped=lambda: _pods_left(data),
    ).run()


def page_lines(kubeconfig: Path) -> list[str]:
    """The page's address, for one login. Nobody needs the page to run pods: without it, a line says why."""
    from fathom.cli.ask.page import new_link  # noqa: PLC0415

    try:
        return [f"page     {new_link(kubeconfig)}  (once, within ten minutes; another: fathom page)"]
    except Problem as error:
        return [f"warning: no link to the page: {error}"]


def _next_lines() -> list[str]:
    fathom = _command()
    return [
        "next, in another terminal, after the export above:",
        f"  {fathom} get nodes        what is there; kubectl works too",
        f"  {fathom} apply -f FILE    run something: docs/examples/web.yaml",
        f"  {fathom} why              whatever is stuck, why, and what to type",
        f"  {fathom} demo risk-api    an incident, from the rollout to the replay, on a cluster of its own",
    ]


def _command() -> str:
    """`fathom`, if a shell finds it; else where it is."""
    own = Path(sys.executable).parent / "fathom"
    installed = shutil.which("fathom")
    if installed is not None and Path(installed).resolve() == own.resolve():
        return "fathom"
    with contextlib.suppress(ValueError):
        return str(own.relative_to(Path.cwd()))
    return str(own)


def _pods_left(data: Path) -> list[str]:
    """Pods are no children of ours: they live on."""
    from fathom.agent.host.living_pods import living_pods  # noqa: PLC0415

    names = [pod.name for pod in living_pods(data)]
    if not names:
        return []
    listed = ", ".join(
        [*names[:NAMES_MAX], *([f"{len(names) - NAMES_MAX} more"] if names[NAMES_MAX:] else [])]
    )
    return [
        f"{len(names)} pods run on: {listed}",
        f"`fathom up` with the same --data adopts them; `fathom down --data {data}` ends them",
    ]
