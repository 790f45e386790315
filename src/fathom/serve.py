"""Run a live API server: open the store, read the clock, listen on a socket, assemble, serve until stopped.

run_api ──> open the data directory ──> Parts ──> load ──> bootstrap ──> listen ──> "ready"
"""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import socket
import sys
from ipaddress import IPv4Network
from pathlib import Path
from typing import Protocol

import msgspec
import uvloop

from fathom import __version__, data_format
from fathom.agent.api_server_link import AgentsOverHttps
from fathom.api.admission.addresses import ADDRESSES
from fathom.api.auth.authenticate import Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.certificates import Pki, ensure_front_proxy_ca, ensure_pki, kubeconfig, served_names
from fathom.api.auth.jws import SigningKey
from fathom.api.auth.static_tokens import BadTokens, parse_tokens
from fathom.api.auth.tls import server_context
from fathom.api.core import Core
from fathom.api.http import Http
from fathom.api.own_service import KEY, PORTS, own_addresses
from fathom.api.web_page import WebPage
from fathom.ask.collect import Sources
from fathom.assembly import Parts, ServerSettings, assemble, bootstrap
from fathom.controllers.housekeeping.writer import ACCOUNT as HOUSEKEEPER
from fathom.metrics.process import process_metrics
from fathom.model.decision import NoJournal
from fathom.model.record_query import DecisionReader
from fathom.model.user import User
from fathom.node_certificates import NodeCertificates
from fathom.open_files import take_all
from fathom.private_files import NotOurs, prepare_directory, write_private
from fathom.published_objects import PublishedObjects, listens_everywhere, reachable_at
from fathom.record.audit import AuditLog
from fathom.record.audit_index import AuditIndex
from fathom.record.journal import DiskJournal
from fathom.record.journal_reader import JournalReader
from fathom.record.journals import SMALL_BUDGET_BYTES, journal_directory
from fathom.record.kept_windows import KeptWindows
from fathom.record.metrics import measure_records
from fathom.record.ring import RingBusy
from fathom.seams.log import JsonLog, Log
from fathom.seams.outside import Outside, live
from fathom.stopping import restarts, stop_event
from fathom.store.migrate import check_finished
from fathom.store.open import open_store
from fathom.store.protocol import Store
from fathom.store.retention import Retention
from fathom.store.sqlite_file import DATABASE, leftover
from fathom.store.unusable import StoreDamaged
from fathom.terminal import say
from fathom.traces.opened import open_traces, traced
from fathom.traces.queue import SpanQueue
from fathom.web.page import Page
from fathom.web.recording_paths import RecordingPaths
from fathom.web.recordings import Recordings
from fathom.web.sessions import Sessions

KEEP_ALIVE_S = 300  # Idle client connections are cheap; a new one costs a handshake.
BACKLOG = 2048  # Connections not yet accepted: thousands of agents may connect at once.
STOP_S = 3  # Time that running requests get to finish when the server stops.
# With other servers on the store: how long the server answers on after it has said that it is not ready. Load
# balancers and clients go to another one meanwhile.
DRAIN_S = 3.0
SETTLE_S = 1.0  # For the first request on connections that were made just before.
TOKENS_CHECK_S = 5.0
SESSIONS_CHECK_S = 2.0  # How long a watch of the web page may outlive its session's end.
INDEX_AUDIT_S = 2.0  # At full speed, some 10,000 writes: a question may have to index so many, in 15 ms.

# A server's garbage is trees, which reference counting frees; live objects live long. With Python's own
# threshold of 700 a sixth of the CPU time went into scanning the same live objects again and again. So many
# containers are some megabytes, and scanning them takes some milliseconds.
GC_CONTAINERS = 50_000

CREDENTIALS = "credentials"
PARTS = ("scheduler", "controllers", "gateway")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Copying(Protocol):
    """Makes this server a read-only copy of another cluster."""

    url: str  # Of the cluster.
    copied: frozenset[str]  # The kinds that are copied: 'pods', 'deployments.apps'.
    journals: dict[str, DecisionReader]  # Of parts that decide there and keep their records here.

    def behind(self) -> str:
        """What of the cluster the copy cannot follow now; '' if it follows all."""
        ...

    async def run(self, running: Running, synced: asyncio.Event) -> None:
        """Copy until cancelled; set `synced` when the copy is complete."""
        ...


COPY_OF = "attached"  # A file of a data directory that copies another cluster: that cluster's URL.
READ_ONLY = (
    "this server is a copy of {}, made by `fathom attach`, and takes no changes: send them to that cluster"
)


def run_api(
    *,
    data: Path,
    host: str,
    port: int,
    store: str | None,
    plugins: list[str] | None = None,
    service_addresses: IPv4Network = ADDRESSES,
    page_hosts: tuple[str, ...] = (),
    copying: Copying | None = None,
    own_kinds: bool = True,
    drain_s: float | None = None,
) -> None:
    """Serve until a signal stops us. Raises NotOurs, UnknownFormat, StoreUnavailable, PkiError. `own_kinds`
    False: as a Kubernetes that does not know fathom.dev."""
    gc.set_threshold(GC_CONTAINERS, 10, 10)
    take_all()
    data = data.absolute()
    os.umask(0o077)  # No other user may read keys, nor Secrets in the store.
    _refuse_copy(data, copying)
    data_format.check(data)  # First: a directory of a newer fathom is left as it is.
    warnings = prepare_directory(data)
    store = store or f"sqlite:{data}"
    _refuse_lost_store(data, store)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(
            _run(
                data,
                host=host,
                port=port,
                store=store,
                plugins=plugins or [],
                service_addresses=service_addresses,
                page_hosts=page_hosts,
                warnings=warnings,
                copying=copying,
                own_kinds=own_kinds,
                drain_s=drain_s,
            )
        )


def _refuse_copy(data: Path, copying: Copying | None) -> None:
    """Refuse to serve a copy of another cluster as if it were one: its controllers would act on it."""
    mark = data / COPY_OF
    if copying is None and mark.exists():
        url = mark.read_text(errors="replace").strip()
        raise NotOurs(
            f"{data} is a copy of {url} that `fathom attach` made: choose another directory with --data"
        )


# Files that a server leaves beside its store. A CA is not among them: an operator may bring one.
TRACES = ("kubeconfig", "pki/server.pem", "pki/sa.key")


def _refuse_lost_store(data: Path, store: str) -> None:
    """Refuse to start if the store of an existing cluster is missing: it must not come up empty."""
    file = data / DATABASE
    if store != f"sqlite:{data}" or file.exists() or file.is_symlink() or leftover(file):
        return
    if traces := [name for name in TRACES if (data / name).exists()]:
        raise StoreDamaged(
            f"{file} is missing, and {traces[0]} shows that a cluster was here: restore a backup (fathom "
            f"store restore FILE --data {data}), use its --store, or start empty with --new-store"
        )


class Running(msgspec.Struct, frozen=True):
    """One live server and the resources it uses."""

    parts: Parts
    store: Store
    audit: AuditLog
    audit_index: AuditIndex
    journal: DiskJournal | None
    pki: Pki
    outside: Outside
    log: Log
    data: Path
    listener: socket.socket
    own_place: tuple[str, int]  # Address and port at which pods reach us.
    warnings: list[str]  # Shown to the user once the server is ready.
    traces: SpanQueue | None = None
    copying: Copying | None = None
    drain_s: float = 0.0


def _sources(data: Path, audit: AuditIndex, copying: Copying | None) -> Sources:
    if copying is not None:
        return Sources(
            journals=copying.journals,
            audit=audit,
            attached=copying.url,
            copied=copying.copied,
            behind=copying.behind,
        )
    own = {HOUSEKEEPER: JournalReader(journal_directory(data, HOUSEKEEPER))}
    return Sources(journals={**own}, audit=audit)


async def _run(
    data: Path,
    *,
    host: str,
    port: int,
    store: str,
    plugins: list[str],
    service_addresses: IPv4Network,
    page_hosts: tuple[str, ...],
    warnings: list[str],
    copying: Copying | None,
    own_kinds: bool,
    drain_s: float | None,
) -> None:
    outside = live()
    log = JsonLog(sys.stderr, outside.clock)
    listener = _listen(host, port)
    opened = await open_store(store)
    traces = open_traces(os.environ, log)
    try:
        await check_finished(opened)
        data_format.adopt(data)  # A store elsewhere has not done so.
        if await opened.revision() > 1 and not (data / "pki" / "ca.key").exists():
            warnings.append(
                "a new CA was made for an existing store: credentials of the old CA are not valid any more"
            )
        if not service_addresses.is_loopback:
            warnings.append(f"Services answer only at addresses of {service_addresses} that this machine has")
        own = await _own_place(opened, listener.getsockname()[1], service_addresses)
        names = [own[0], *page_hosts, *([] if host in {"", "0.0.0.0", "::"} else [host])]
        pki = ensure_pki(data, names, clock=outside.clock)
        audit = AuditLog(data / "audit", clock=outside.clock, log=log)
        audit_index = AuditIndex(data / "audit")
        # What a copy writes to begin with is about itself, not about the cluster.
        journal = _open_journal(data, log) if copying is None else None
        agents = AgentsOverHttps(pki, outside.clock)
        parts = assemble(
            ServerSettings(
                store=opened,
                outside=outside,
                log=log,
                audit=audit,
                signing=SigningKey(pki.accounts_key),
                token=secrets.token_urlsafe(32),
                shared_store=store.startswith("etcd"),
                plugins=tuple(plugins),
                agents=agents,
                sources=_sources(data, audit_index, copying),
                own_kinds=own_kinds,
                read_only="" if copying is None else READ_ONLY.format(copying.url),
                service_addresses=service_addresses,
                journal=traced(journal or NoJournal(), traces, HOUSEKEEPER),
                traces=None if traces is None else traces.of("api-server"),
                decision_prefix=outside.ids.uid()[:8],
                make_page=lambda authenticator, authorizer: _page(
                    names, outside, authenticator, authorizer, data
                ),
            )
        )
        await parts.feed.load()
        await _serve(
            Running(
                parts,
                opened,
                audit,
                audit_index,
                journal,
                pki,
                outside,
                log,
                data,
                listener,
                own,
                warnings,
                traces,
                copying,
                _drain_s(drain_s, store),
            )
        )
        await agents.close()
        audit.close()
        audit_index.close()
        if journal is not None:
            journal.close()
    finally:
        listener.close()
        await opened.close()
        if traces is not None:
            traces.close()


def _page(
    names: list[str], outside: Outside, authenticator: Authenticator, authorizer: Authorizer, data: Path
) -> Page:
    sessions = Sessions(outside.clock, lambda: secrets.token_urlsafe(32), authenticator.is_valid)
    recordings = Recordings(data, outside.clock, lambda: outside.ids.uid()[:8])
    return Page(
        sessions, authenticator, authorizer, names=served_names(names), recordings=RecordingPaths(recordings)
    )


async def _end_sessions(page: WebPage) -> None:
    """End the sessions of the web page that are over, and their watches."""
    while True:
        page.sweep()
        await asyncio.sleep(SESSIONS_CHECK_S)


def _open_journal(data: Path, log: Log) -> DiskJournal | None:
    """The journal of housekeeping. The API server starts without it: None, which is logged."""
    try:
        directory = journal_directory(data, HOUSEKEEPER)
        kept = KeptWindows(data, HOUSEKEEPER)
        return DiskJournal(directory, budget_bytes=SMALL_BUDGET_BYTES, log=log, kept=kept)
    except (RingBusy, OSError) as error:
        log.error("housekeeping keeps no journal of its decisions", error=str(error))
        return None


async def _own_place(store: Store, port: int, addresses: IPv4Network) -> tuple[str, int]:
    """The address and port of the Service `kubernetes`. An existing Service keeps its own: running programs
    know it. Else one that a gateway beside us can listen on: no other cluster uses it, and it needs no rights
    that we lack."""
    service = await store.get(KEY)
    if service is not None:
        spec = service.body.obj["spec"]
        return str(spec["clusterIP"]), int(spec["ports"][0]["port"])
    for number in PORTS:
        for address in own_addresses(port, addresses):
            try:
                _listen(address, number).close()
            except PermissionError:
                break
            except OSError:
                continue
            return address, number
    return next(own_addresses(port, addresses)), PORTS[0]


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


async def _serve(running: Running) -> None:
    parts, core = running.parts, running.parts.core
    parts.server.metrics.gauge(
        "fathom_audit_entries_dropped",
        "Audit entries that could not be written.",
        lambda: running.audit.dropped,
    )
    http, stop = Http(parts.server, keep_alive_s=KEEP_ALIVE_S), stop_event()
    published = PublishedObjects(parts, reachable_at(running.listener), running.own_place, log=running.log)
    process = process_metrics(restarts=restarts(), version=__version__)
    parts.server.metrics.registry.register("process", process)
    measure_records(parts.server.metrics.registry.part(HOUSEKEEPER), running.journal, None)
    if running.traces is not None:
        parts.server.metrics.registry.register("traces", running.traces.collect)
    _measure(parts, http)
    async with asyncio.TaskGroup() as group:
        background = [
            group.create_task(parts.feed.follow()),
            group.create_task(_reload_tokens(running, running.data / "tokens.csv")),
            group.create_task(Retention(running.store, running.outside.clock).run()),
            group.create_task(running.audit.run()),
            group.create_task(_index_audit(running.audit_index, running.log)),
            group.create_task(_end_sessions(parts.page)),
        ]
        background += await _begin(running, group, stop)
        listening = await asyncio.get_running_loop().create_server(
            http.connection, sock=running.listener, ssl=server_context(running.pki), backlog=BACKLOG
        )
        if running.copying is None:
            front_proxy = ensure_front_proxy_ca(running.data, clock=running.outside.clock)
            await published.publish()
            await published.publish_authorities(running.pki.ca_pem.decode(), front_proxy.decode())
        if parts.questions is not None:  # Now that all is ready: a start does not wait for it.
            background.append(group.create_task(parts.questions.prepare(running.log)))
        gc.freeze()  # Kinds, decoders, code live as long as the process: GC need not scan them.
        if not stop.is_set():
            _announce(running)
        await stop.wait()
        core.draining = True  # Before anything else: readyz fails while all is still answered.
        if running.parts.core.shared_store and running.drain_s and not listens_everywhere(running.listener):
            await published.withdraw()
        await stop_serving(core, http, listening, drain_s=running.drain_s)
        for task in background:
            task.cancel()


async def _begin(running: Running, group: asyncio.TaskGroup, stop: asyncio.Event) -> list[asyncio.Task[None]]:
    """Fill the store: with what every cluster has, or with a copy of another. Housekeeping would delete from
    a copy what it cannot see the owners of."""
    parts, copying = running.parts, running.copying
    if copying is None:
        work = (parts.housekeeping.run(), parts.fights.run(), _node_certificates(running).run())
        tasks = [group.create_task(part) for part in work]
        await bootstrap(parts)
        return tasks
    await bootstrap(parts)
    synced = asyncio.Event()
    task = group.create_task(copying.run(running, synced))
    waits = [asyncio.create_task(event.wait()) for event in (synced, stop)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    return [task]


def _node_certificates(running: Running) -> NodeCertificates:
    writer = running.parts.writer("node-certificates")
    return NodeCertificates(
        writer, running.parts.core.cache, running.pki, running.outside.clock, log=running.log
    )


def _drain_s(wanted_s: float | None, store: str) -> float:
    if wanted_s is not None:
        return wanted_s
    return DRAIN_S if store.startswith("etcd") else 0.0


async def stop_serving(core: Core, http: Http, listening: asyncio.Server, *, drain_s: float) -> None:
    """Not ready, but serving while clients go to other servers; then no new connections; then watches end by
    themselves, and what runs is finished."""
    core.draining = True
    if drain_s:
        await http.drain(seconds=drain_s)
    listening.close()
    core.stopping = True
    core.cache.wake_all()
    if drain_s:
        await http.drain(seconds=SETTLE_S)
    await http.stop(patience_s=STOP_S)


async def _index_audit(index: AuditIndex, log: Log) -> None:
    """Keep the index of the audit log up to date, so that no question has to index much."""
    while True:
        try:
            await asyncio.to_thread(index.follow)
        except OSError as error:
            log.warn("the audit log is not indexed", error=str(error))
        await asyncio.sleep(INDEX_AUDIT_S)


def _measure(parts: Parts, http: Http) -> None:
    budgets, questions = http.budgets, parts.questions
    for name, text, read in (
        ("fathom_request_body_bytes", "Bytes of the request bodies in memory.", lambda: budgets.bodies.used),
        (
            "fathom_request_bodies_refused",
            "Request bodies refused for lack of memory.",
            lambda: budgets.bodies.refused,
        ),
        (
            "fathom_unread_answer_bytes",
            "Bytes of answers that clients have not read.",
            lambda: budgets.unread.used,
        ),
        (
            "fathom_connections_cut_off",
            "Connections closed because the client did not read.",
            lambda: budgets.unread.refused,
        ),
        (
            "fathom_question_view_objects",
            "Objects in the view of the cluster that is kept for questions.",
            lambda: 0 if questions is None else questions.objects_prepared,
        ),
    ):
        parts.server.metrics.gauge(name, text, read)


def _announce(running: Running) -> None:
    host = running.listener.getsockname()[0]
    reachable, port = reachable_at(running.listener)
    url = f"https://[{reachable}]:{port}" if ":" in reachable else f"https://{reachable}:{port}"
    file = running.data / "kubeconfig"
    write_private(file, kubeconfig(running.pki, url, clock=running.outside.clock).encode())
    _write_credentials(running, url)
    copied = "" if running.copying is None else f", a read-only copy of {running.copying.url},"
    say(f"fathom {__version__} serves the Kubernetes API{copied} on {url}, data in {running.data}")
    reach = [] if host in LOOPBACK else [f"other machines can reach the API server at {host}"]
    for warning in (*running.warnings, *reach):
        say(f"warning: {warning}")
    say(f"export KUBECONFIG={file}")
    say("ready")


def _write_credentials(running: Running, url: str) -> None:
    """Write a kubeconfig for each part of the control plane beside us: DIR/credentials/NAME."""
    folder = running.data / CREDENTIALS
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in PARTS:
        user = User(f"system:fathom:{name}")
        write_private(folder / name, kubeconfig(running.pki, url, user, clock=running.outside.clock).encode())


async def _reload_tokens(running: Running, file: Path) -> None:
    """Reload static tokens whenever their file changes."""
    stamp: tuple[int, int] = (0, 0)
    while True:
        stamp = _follow_tokens(running, file, stamp)
        await asyncio.sleep(TOKENS_CHECK_S)


def _follow_tokens(running: Running, file: Path, stamp: tuple[int, int]) -> tuple[int, int]:
    """Read the file if it changed since the last read. A broken file changes nothing and is logged."""
    try:
        status = os.stat(file)
        now = (status.st_mtime_ns, status.st_size)
    except FileNotFoundError:
        now = (0, 0)
    except OSError as error:
        running.log.error("tokens not reloaded", file=str(file), error=str(error))
        return stamp
    if now == stamp:
        return stamp
    try:
        tokens = parse_tokens(file.read_text(), source=str(file)) if now != (0, 0) else {}
    except (OSError, ValueError, BadTokens) as error:
        running.log.error("tokens not reloaded", file=str(file), error=str(error))
    else:
        running.parts.authenticator.replace_tokens({**tokens, **running.parts.own_tokens})
    return now
