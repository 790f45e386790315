"""`fathom serve …`: run one part of the control plane as its own process. `fathom up` starts all of them.

Each part is one function below, which imports the part's module only when it runs.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Coroutine
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from cyclopts.validators import Number

from fathom.cli.places import DEFAULT_DATA
from fathom.cli.problem import Problem
from fathom.open_files import take_all

# `agent` is imported only when it runs, so `fathom serve --help` has no docstring to show.
AGENT = "Run the agent of one or more nodes. When the agent stops, its pods keep running."

DEFAULT_PORT = 6443  # Where kube-apiserver listens.
DEFAULT_SERVICES = "127.96.0.0/12"  # As in `api.admission.addresses`.
PREFIX_MIN, PREFIX_MAX = 8, 28  # Of a Service range: sixteen addresses leave seven to assign.

Data = Annotated[Path, Parameter(help="Data directory: store, kubeconfig, credentials, logs.")]
Host = Annotated[str, Parameter(help="Address to listen on.")]
Port = Annotated[
    int, Parameter(validator=Number(gte=0, lte=65535), help="Port to listen on; 0 takes any free one.")
]
Store = Annotated[
    str | None, Parameter(help="URL of the store, such as etcd://127.0.0.1:2379. Default: SQLite in --data.")
]
NewStore = Annotated[
    bool, Parameter(negative=(), help="Start an empty cluster if --data has lost its store.")
]
ServiceCidr = Annotated[
    str, Parameter(name="--service-cidr", help="IPv4 range for the addresses of Services.")
]
Admission = Annotated[
    tuple[str, ...],
    Parameter(negative=(), help="Admission plugin of yours, as module:name; may be repeated."),
]
PageHost = Annotated[
    tuple[str, ...],
    Parameter(
        name="--page-host",
        negative=(),
        help="Further name of this server that browsers may use for the web page; it is added to the"
        " server's certificate. May be repeated.",
    ),
]
Drain = Annotated[
    float | None,
    Parameter(
        validator=Number(gte=0, lte=600),
        help="Seconds that a stopping server answers on after /readyz has failed, so that clients go to"
        " another one. Default: 3 on etcd, else 0.",
    ),
]
JOURNAL_MIB = 256  # As `record.journal.BUDGET_BYTES`.
DEFAULT_ADDRESS = "127.0.0.1:0"  # Any free port: the API server reads it from the process's EndpointSlice.
MetricsAddress = Annotated[
    str,
    Parameter(
        help="HOST:PORT where the API server reads the metrics of this process; port 0 takes any free one,"
        " '' serves no metrics."
    ),
]
Kubeconfig = Annotated[
    Path | None,
    Parameter(help="Kubeconfig file. Default: where kubectl looks, or the pod's service account."),
]

HELP = """Run one process of the control plane. `fathom up` runs all of them.

Flags also come from the environment (FATHOM_SERVE_API_PORT=7443) and from a TOML file (--config FILE,
FATHOM_CONFIG; in it: [serve.api] and port = 7443).

fathom serve api --data /var/lib/fathom
fathom serve agent --nodes 3 --up /var/lib/fathom
"""


def make_app() -> App:
    app = App(name="serve", help=HELP)
    app.command(api)
    app.command(gateway)
    app.command(scheduler)
    app.command(controllers)
    app.command(deciders)
    app.command("fathom.cli.cluster.agents:agent", name="agent", help=AGENT)
    return app


def api(
    *,
    data: Data = DEFAULT_DATA,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    store: Store = None,
    new_store: NewStore = False,
    service_cidr: ServiceCidr = DEFAULT_SERVICES,
    admission: Admission = (),
    page_host: PageHost = (),
    drain: Drain = None,
) -> None:
    """Run the API server with its store. Writes the kubeconfig to --data and prints `ready`.

    fathom serve api --data /var/lib/fathom
    fathom serve api --store etcd://127.0.0.1:2379 --host 0.0.0.0 --port 6443
    """
    from fathom import serve  # noqa: PLC0415  # Only this command pays for the server's modules.
    from fathom.api.admission.plugins import UnknownPlugin  # noqa: PLC0415
    from fathom.api.auth.certificates import PkiError  # noqa: PLC0415
    from fathom.data_format import UnknownFormat  # noqa: PLC0415
    from fathom.private_files import NotOurs  # noqa: PLC0415
    from fathom.store.protocol import StoreUnavailable  # noqa: PLC0415

    addresses = service_addresses(service_cidr)
    if new_store:
        make_new_store(data, store)
    try:
        serve.run_api(
            data=data,
            host=host,
            port=port,
            store=store,
            plugins=list(admission),
            service_addresses=addresses,
            page_hosts=page_host,
            drain_s=drain,
        )
    except (
        NotOurs,
        PkiError,
        StoreUnavailable,
        UnknownFormat,
        UnknownPlugin,
    ) as error:  # One line each.
        raise Problem(str(error)) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            message = f"port {port} on {host} is in use; choose another, for example --port {port + 1}"
            raise Problem(message) from error
        raise


def service_addresses(text: str) -> IPv4Network:
    """Raises Problem for an invalid range: too small to share, too large to be intended, or overlapping
    pods."""
    from fathom.agent.addresses import PODS  # noqa: PLC0415

    try:
        network = ip_network(text)
    except ValueError as error:
        raise Problem(f"--service-cidr {text!r}: {error}") from error
    if not isinstance(network, IPv4Network):
        raise Problem(f"--service-cidr {text}: Services need an IPv4 range")
    if not PREFIX_MIN <= network.prefixlen <= PREFIX_MAX:
        raise Problem(f"--service-cidr {text}: choose a range from /{PREFIX_MIN} to /{PREFIX_MAX}")
    if network.overlaps(PODS):
        raise Problem(f"--service-cidr {text}: the range overlaps {PODS}, which is for pods; choose another")
    return network


def make_new_store(data: Path, store: str | None) -> None:
    """Create an empty store in DIR if there is none. An existing one stays."""
    from fathom.store import sqlite_file  # noqa: PLC0415
    from fathom.store.protocol import StoreUnavailable  # noqa: PLC0415

    if store is not None:
        raise Problem("--new-store creates a store in --data: leave out --store")
    try:
        sqlite_file.prepare_directory(data)
        sqlite_file.create_if_absent(data / sqlite_file.DATABASE)
    except StoreUnavailable as error:
        raise Problem(str(error)) from error


def gateway(
    *,
    kubeconfig: Kubeconfig = None,
    remember: Annotated[
        Path | None,
        Parameter(
            help="File that keeps the table of Services; the gateway starts with it, even if no API server"
            " answers."
        ),
    ] = None,
    data: Annotated[
        Path | None, Parameter(help="Directory for journal and tape. Default: that of the kubeconfig.")
    ] = None,
    record: Annotated[bool, Parameter(negative=(), help="Also record a tape, for `fathom replay`.")] = False,
    metrics_address: MetricsAddress = DEFAULT_ADDRESS,
) -> None:
    """Run the gateway: it listens on the addresses of Services and forwards connections to their pods.

    Prints its log to standard error, a JSON document in each line.

    fathom serve gateway --kubeconfig gateway.yaml
    fathom serve gateway --kubeconfig gateway.yaml --remember services.json
    """
    from fathom.cli.cluster.gateway import serve_gateway  # noqa: PLC0415

    serve_gateway(kubeconfig, remember=remember, data=data, record=record, metrics_address=metrics_address)


def scheduler(
    *,
    kubeconfig: Kubeconfig = None,
    name: Annotated[
        tuple[str, ...],
        Parameter(negative=(), help="Schedule pods with this schedulerName; may be repeated."),
    ] = ("default-scheduler", "fathom"),
    data: Annotated[
        Path | None, Parameter(help="Directory for journal and tapes. Default: that of the kubeconfig.")
    ] = None,
    lease: Annotated[
        str | None,
        Parameter(
            help="Lease to hold while scheduling, as NAMESPACE/NAME. Default: one in fathom-system for each"
            " first --name and each --shard. '': no lease, several schedulers work at once; fathom's own"
            " accounts need a lease."
        ),
    ] = None,
    shard: Annotated[
        str, Parameter(help="I/N: schedule only the tenants of shard I of N; the first is 0.")
    ] = "0/1",
    record: Annotated[bool, Parameter(negative=(), help="Also record a tape, for `fathom replay`.")] = False,
    journal_mib: Annotated[
        int,
        Parameter(
            validator=Number(gte=0),
            help="Disk space for the journal of decisions, in MiB. 0: none, and nothing can be explained.",
        ),
    ] = JOURNAL_MIB,
    metrics_address: MetricsAddress = DEFAULT_ADDRESS,
) -> None:
    """Run the scheduler. It records the reasons of each decision.

    Prints its log to standard error, a JSON document in each line.

    fathom serve scheduler --kubeconfig scheduler.yaml --data /var/lib/fathom
    fathom serve scheduler --kubeconfig scheduler.yaml --shard 0/2 --record
    """
    from fathom.cli.cluster.scheduler import serve_scheduler  # noqa: PLC0415

    serve_scheduler(
        kubeconfig,
        names=name,
        data=data,
        lease=lease,
        shard=shard,
        record=record,
        journal_mib=journal_mib,
        metrics_address=metrics_address,
    )


def controllers(
    *,
    kubeconfig: Kubeconfig = None,
    only: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help="Run only this controller, by its id (controllers/job) or as module:Class; may be repeated.",
        ),
    ] = (),
    data: Annotated[
        Path | None, Parameter(help="Directory for journal and tapes. Default: that of the kubeconfig.")
    ] = None,
    lease: Annotated[
        str,
        Parameter(
            help="Lease to hold while working, as NAMESPACE/NAME. '': no lease, for a single process;"
            " fathom's own accounts need a lease."
        ),
    ] = "fathom-system/controllers",
    record: Annotated[bool, Parameter(negative=(), help="Also record a tape, for `fathom replay`.")] = False,
    metrics_address: MetricsAddress = DEFAULT_ADDRESS,
) -> None:
    """Run the controllers of workloads, endpoints, disruption budgets, node health and repair.

    Prints its log to standard error, a JSON document in each line.

    fathom serve controllers --kubeconfig controllers.yaml --data /var/lib/fathom
    fathom serve controllers --kubeconfig controllers.yaml --only controllers/job
    """
    from fathom.cli.cluster.controllers import serve_controllers  # noqa: PLC0415

    serve_controllers(
        kubeconfig, only=only, data=data, lease=lease, record=record, metrics_address=metrics_address
    )


def deciders(
    *,
    scheduler: Annotated[Path, Parameter(help="Kubeconfig of the scheduler.")],
    controllers: Annotated[Path, Parameter(help="Kubeconfig of the controllers.")],
    data: Annotated[Path, Parameter(help="Directory for journal and tapes.")],
    record: Annotated[bool, Parameter(help="Record tapes, for `fathom replay`.")] = True,
    metrics_address: MetricsAddress = DEFAULT_ADDRESS,
) -> None:
    """Run the scheduler and the controllers in one process, as `fathom up` does.

    Prints its log to standard error, a JSON document in each line.

    fathom serve deciders --scheduler scheduler.yaml --controllers controllers.yaml --data /var/lib/fathom
    fathom serve deciders --scheduler s.yaml --controllers c.yaml --data . --no-record
    """
    from fathom.cli.cluster.deciders import serve_deciders  # noqa: PLC0415

    serve_deciders(
        scheduler=scheduler,
        controllers=controllers,
        data=data,
        record=record,
        metrics_address=metrics_address,
    )


def server_at(kubeconfig: Path | None) -> Any:
    """The API server that a part connects to. Call it on the part's loop."""
    from fathom.client.kubeconfig import BadKubeconfig  # noqa: PLC0415
    from fathom.client.servers import find_server  # noqa: PLC0415
    from fathom.seams.outside import live  # noqa: PLC0415

    try:
        return find_server(kubeconfig, clock=live().clock, environ=os.environ)
    except BadKubeconfig as error:
        raise Problem(str(error)) from error


def run_on_uvloop(main: Coroutine[Any, Any, None]) -> None:
    import uvloop  # noqa: PLC0415

    take_all()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


app = make_app()
