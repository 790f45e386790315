"""`fathom serve agent`: the agents of one or several nodes, in one process."""

from __future__ import annotations

import os
import socket
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from fathom.cli.cluster.serve import Kubeconfig, run_on_uvloop
from fathom.cli.problem import Problem
from fathom.record.journals import AGENTS, journal_directory
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.agent.host.ids import HostIds
    from fathom.agent.live import AgentsWanted
    from fathom.agent.settings import Script
    from fathom.cli.cluster.joining import JoinWanted

AllowHostIds = Annotated[
    str,
    Parameter(
        help="User and group ids of this machine that pods may run with if they ask: uid:1000,gid:44,…"
    ),
]


def agent(
    *,
    kubeconfig: Kubeconfig = None,
    node: Annotated[
        str, Parameter(help="Name of the node. With --nodes N, the nodes are NAME-1 to NAME-N.")
    ] = "",
    nodes: Annotated[
        int, Parameter(validator=Number(gte=1, lte=1000), help="Number of nodes that this process runs.")
    ] = 1,
    zone: Annotated[str, Parameter(help="Zone of the node.")] = "",
    zones: Annotated[str, Parameter(help="Zones that several nodes are spread over, in turn: A,B,…")] = "",
    region: Annotated[
        str,
        Parameter(
            help="Region of the zones. Default: by the zone's name: eu-west-a is in eu-west, others in local."
        ),
    ] = "",
    data: Annotated[Path, Parameter(help="Directory for the pods' files and logs.")] = Path(".fathom-agents"),
    images: Annotated[
        Path | None,
        Parameter(help="TOML file that says which command runs for which image (docs/agents.md)."),
    ] = None,
    driver: Annotated[
        Literal["process", "simulated"],
        Parameter(help="process: containers are real processes. simulated: containers only follow --script."),
    ] = "process",
    cpu: Annotated[str, Parameter(help="CPU of each node. Default: an equal share of the machine's.")] = "",
    memory: Annotated[
        str, Parameter(help="Memory of each node. Default: an equal share of the machine's.")
    ] = "",
    pods: Annotated[
        int, Parameter(validator=Number(gte=1, lte=250), help="Maximum number of pods on each node.")
    ] = 110,
    script: Annotated[
        str, Parameter(help='How simulated containers behave, as JSON: {"image_s": 2} (docs/agents.md).')
    ] = "",
    hide: Annotated[
        tuple[Path, ...],
        Parameter(
            negative=(),
            help="Directory that no pod can see, such as the data of an API server; may be repeated.",
        ),
    ] = (),
    allow_root: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Let pods run as root if they ask; such a pod can read every file of this machine.",
        ),
    ] = False,
    allow_host_ids: AllowHostIds = "",
    record: Annotated[
        Path | None, Parameter(help="Directory in which each node's agent is recorded, for `fathom replay`.")
    ] = None,
    up: Annotated[
        Path | None,
        Parameter(
            help="Data directory of an API server on this machine: its CA issues the nodes' credentials."
        ),
    ] = None,
    address: Annotated[
        str,
        Parameter(
            help="Address of this machine at which API servers of other machines reach the agent, for logs,"
            " exec and metrics. Default: one of the loopback."
        ),
    ] = "",
    server: Annotated[
        str, Parameter(help="URL of the API server to join, with a token instead of a kubeconfig.")
    ] = "",
    token: Annotated[str, Parameter(help="Token that lets the nodes join; needed once.")] = "",
    token_file: Annotated[Path | None, Parameter(help="File with the token.")] = None,
    ca: Annotated[
        Path | None,
        Parameter(help="CA of the API server to join, in PEM. Default: the system's authorities."),
    ] = None,
) -> None:
    """Run the agent of one or more nodes. When the agent stops, its pods keep running.

    Prints its log to standard error, a JSON document in each line.

    fathom serve agent --node node-7 --kubeconfig agent.yaml --zone zone-a
    fathom serve agent --nodes 3 --zones zone-a,zone-b --up /var/lib/fathom
    fathom serve agent --node node-7 --server https://10.0.0.1:6443 --ca ca.crt --token-file token
    """
    from fathom.agent.host.images import BadImages, ImagesFile  # noqa: PLC0415  # Only this command pays.
    from fathom.agent.host.machine import AlreadyRuns  # noqa: PLC0415
    from fathom.agent.live import AgentsWanted, named_nodes, run_agents_live  # noqa: PLC0415
    from fathom.api.auth.certificates import PkiError  # noqa: PLC0415
    from fathom.client.kubeconfig import BadKubeconfig  # noqa: PLC0415
    from fathom.data_format import UnknownFormat  # noqa: PLC0415
    from fathom.model.formats import dns_subdomain  # noqa: PLC0415
    from fathom.private_files import NotOurs  # noqa: PLC0415
    from fathom.seams.log import JsonLog  # noqa: PLC0415
    from fathom.seams.outside import live  # noqa: PLC0415
    from fathom.stopping import restarts, stop_event  # noqa: PLC0415
    from fathom.traces.opened import opened_traces  # noqa: PLC0415

    zone_names = [name.strip() for name in (zones or zone).split(",") if name.strip()]
    wanted_nodes = named_nodes(name=node, count=nodes, zones=zone_names, region=region)
    for wanted_node in wanted_nodes:
        if problems := dns_subdomain(wanted_node.name):
            raise Problem(f"{wanted_node.name!r} is not a valid node name: {problems[0]}")
    outside = live()
    joined = _join_wanted(server, token, token_file, ca, data=data)
    if joined is not None:
        from fathom.cli.cluster.joining import join  # noqa: PLC0415

        if kubeconfig is not None or up is not None:
            raise Problem("--server joins with a token: leave out --kubeconfig and --up")
        kubeconfig = join(joined, [wanted_node.name for wanted_node in wanted_nodes])

    async def run() -> None:
        wanted = AgentsWanted(
            nodes=wanted_nodes,
            kubeconfig=kubeconfig,
            address=_own_address(address),
            data=data.absolute(),
            driver=driver,
            images=ImagesFile(images),
            capacity=_capacity(cpu, memory, pods),
            script=_script(script),
            hide=tuple(directory.absolute() for directory in hide),
            allow_root=allow_root,
            host_ids=host_ids_of(allow_host_ids),
            record=record,
            journal=journal_directory(data.absolute(), journal_name(wanted_nodes[0].name)),
            restarts=restarts(),
        )
        if up is not None:
            wanted = _beside(wanted, up.absolute())
        log = JsonLog(sys.stderr, outside.clock)
        with opened_traces(os.environ, log) as traces:
            await run_agents_live(
                wanted, stop=stop_event(), log=log, outside=outside, ready=_say_ready, traces=traces
            )

    try:
        run_on_uvloop(run())
    except (BadImages, BadKubeconfig, AlreadyRuns, NotOurs, PkiError, UnknownFormat) as error:
        raise Problem(str(error)) from error


def _own_address(text: str) -> str:
    """Raises Problem for what this process cannot listen on."""
    if not text:
        return ""
    try:
        family = socket.AF_INET6 if ip_address(text).version == 6 else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((text, 0))
    except (ValueError, OSError) as error:
        raise Problem(f"--address {text}: give an IP address of this machine ({error})") from error
    return text


def _join_wanted(
    server: str, token: str, token_file: Path | None, ca: Path | None, *, data: Path
) -> JoinWanted | None:
    """None: without --server. Raises Problem."""
    if not server:
        if token or token_file is not None or ca is not None:
            raise Problem(
                "--token and --ca are for joining: name the API server with --server https://HOST:PORT"
            )
        return None
    from fathom.cli.cluster.joining import JoinWanted  # noqa: PLC0415

    if not server.startswith("https://"):
        raise Problem(f"--server {server!r}: give an address such as https://10.0.0.1:6443")
    if token_file is not None:
        try:
            token = token_file.read_text().strip()
        except OSError as error:
            raise Problem(f"--token-file {token_file}: {error.strerror}") from error
    return JoinWanted(server.rstrip("/"), token, ca, data.absolute() / "credentials")


def _beside(wanted: AgentsWanted, up: Path) -> AgentsWanted:
    """Settings of agents on the API server's machine: its data directory holds their credentials and files,
    and is hidden from pods."""
    import msgspec  # noqa: PLC0415

    from fathom.agent.credentials import write_node_credentials  # noqa: PLC0415
    from fathom.seams.outside import live  # noqa: PLC0415

    file = write_node_credentials(up, [node.name for node in wanted.nodes], clock=live().clock)
    journal = journal_directory(up, journal_name(wanted.nodes[0].name))
    return msgspec.structs.replace(
        wanted, kubeconfig=file, data=up / "agents", journal=journal, hide=(*wanted.hide, up)
    )


def journal_name(node: str) -> str:
    """The journal of the process whose first node this is: several processes may share a directory."""
    return f"{AGENTS}{node}"


def _say_ready() -> None:
    say("ready")


def host_ids_of(text: str) -> HostIds:
    from fathom.agent.host.ids import parse_host_ids  # noqa: PLC0415

    try:
        return parse_host_ids(text)
    except ValueError as error:
        raise Problem(f"--allow-host-ids: {error}") from error


def _capacity(cpu: str, memory: str, pods: int) -> dict[str, str]:
    from fathom.model.quantity import parse  # noqa: PLC0415

    capacity = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    for name, text in capacity.items():
        try:
            if text and parse(text).nano <= 0:
                raise ValueError("must be greater than zero")
        except ValueError as error:
            raise Problem(f"--{name} {text}: {error}") from error
    return {name: text for name, text in capacity.items() if text}


def _script(text: str) -> Script:
    import msgspec  # noqa: PLC0415

    from fathom.agent.settings import Script  # noqa: PLC0415

    try:
        return msgspec.json.decode(text, type=Script) if text else Script()
    except msgspec.MsgspecError as error:
        raise Problem(f"--script: {error}") from error
