"""Run the scheduler for a command: which pods it takes, with which lease, journal, tape and metrics."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from fathom import __version__
from fathom.cli.cluster.journals import opened_journal
from fathom.cli.cluster.leases import check_lease, check_namespace
from fathom.cli.cluster.metrics import measured
from fathom.cli.cluster.serve import run_on_uvloop, server_at
from fathom.cli.places import data_beside
from fathom.cli.problem import Problem
from fathom.client.http import ServerAddress
from fathom.client.once import api_of
from fathom.metrics.registry import NOT_MEASURED
from fathom.metrics.registry import Part as MetricsPart
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.decision import NoJournal
from fathom.model.errors import ApiError
from fathom.record.journal import DiskJournal
from fathom.record.metrics import measure_records
from fathom.record.recorded_process import EndedByItself
from fathom.record.ring import RingBusy
from fathom.record.tape import DiskTape
from fathom.record.tape_list import directory_of as tape_directory
from fathom.schedule.loop.live import TimedJournal, run_scheduler_live
from fathom.schedule.loop.process import SchedulerSettings
from fathom.schedule.loop.watched_kinds import OVERRIDE, QUOTA, STORAGE_CLASS
from fathom.seams.log import JsonLog
from fathom.seams.outside import live
from fathom.stopping import stop_event
from fathom.traces.opened import opened_traces, traced
from fathom.traces.queue import SpanQueue

SHARD = re.compile(r"(\d{1,4})/(\d{1,4})")
NAMES = ("default-scheduler", "fathom")  # The default schedulerName, and our own.


def who_is(names: tuple[str, ...], shard: tuple[int, int]) -> str:
    """The name of a scheduler in records: one per scheduler that may run beside others."""
    suffix = "" if names[0] == "default-scheduler" else f"-{names[0]}"
    return f"scheduler{suffix}" + (f"-{shard[0]}of{shard[1]}" if shard[1] > 1 else "")


def lease_of(lease: str | None, process: str, part: tuple[int, int]) -> str:
    """The lease. A scheduler of other pods has its own: else it would stand by for one that does not take
    them."""
    if lease is None:
        return f"{SYSTEM_NAMESPACE}/{process}"
    if lease and lease.count("/") != 1:
        raise Problem(f"--lease must read NAMESPACE/NAME, not {lease!r}")
    return f"{lease}-{part[0]}of{part[1]}" if lease and part[1] > 1 else lease


def serve_scheduler(
    kubeconfig: Path | None,
    *,
    names: tuple[str, ...],
    data: Path | None,
    lease: str | None,
    shard: str,
    record: bool,
    journal_mib: int,
    metrics_address: str,
) -> None:
    async def run() -> None:
        stop, log, server = stop_event(), JsonLog(sys.stderr, live().clock), server_at(kubeconfig)
        process, folder = who_is(names, _shard(shard)), data or data_beside(kubeconfig)
        budget_bytes = journal_mib << 20
        opened = opened_journal(folder, process, log, budget_bytes=budget_bytes) if journal_mib else None
        with opened_traces(os.environ, log) as traces, opened or nullcontext() as journal:
            async with measured(
                process,
                ("scheduler",),
                server,
                address=metrics_address,
                where=str(folder.absolute()),
                log=log,
                journal=traced(journal or NoJournal(), traces, process),
                traces=traces,
            ) as registry:
                await run_scheduler(
                    kubeconfig,
                    stop,
                    journal=journal,
                    names=names,
                    data=data,
                    lease=lease,
                    shard=shard,
                    record=record,
                    metrics=registry.part(process),
                    traces=traces,
                )

    run_on_uvloop(run())


async def run_scheduler(
    kubeconfig: Path | None,
    stop: asyncio.Event,
    *,
    journal: DiskJournal | None,
    names: tuple[str, ...] = NAMES,
    data: Path | None = None,
    lease: str | None = None,
    shard: str = "0/1",
    record: bool = False,
    metrics: MetricsPart = NOT_MEASURED,
    traces: SpanQueue | None = None,
) -> None:
    """Run on the current loop until `stop` is set. Without a journal nothing is recorded but the tape. Raises
    Problem."""
    part = _shard(shard)
    process = who_is(names, part)
    chosen = lease is not None
    lease = lease_of(lease, process, part)
    server = server_at(kubeconfig)
    if chosen:
        await check_lease(server, lease)
    await check_namespace(server, lease)
    folder = data or data_beside(kubeconfig)
    log = JsonLog(sys.stderr, live().clock)
    try:
        kept = None if journal is None else journal.kept
        tape = DiskTape(tape_directory(folder, process), log=log, kept=kept) if record else None
    except RingBusy as error:
        raise Problem(f"{error}: is this scheduler running already?") from error
    timed = None if journal is None else TimedJournal(journal)
    measure_records(metrics, journal, tape)
    own_kinds = await _has_fathom_kinds(server)
    settings = SchedulerSettings(
        names=names,
        shard=part[0],
        shards=part[1],
        lease=lease,
        who=process,
        observer="" if lease else f"{process}/{socket.gethostname()}",  # Others may run beside it.
        target=server.url,
        own_kinds=own_kinds,
        attached_kinds=() if own_kinds else await _attached_kinds(server),
        user_agent=f"fathom/{__version__} {process}",
    )
    began_s = time.process_time()
    try:
        await run_scheduler_live(
            settings,
            server,
            stop,
            tape=tape,
            held=None if journal is None else journal.directory,
            journal=None if timed is None else traced(timed, traces, process),
            log=log,
            metrics=metrics,
        )
    except EndedByItself as error:
        raise Problem(str(error)) from error
    finally:
        if journal is not None and timed is not None:
            log.info(
                "journal",
                records=journal.written,
                bytes=journal.bytes,
                lost=journal.lost,
                seconds=round(timed.spent_ns / 1e9, 3),
                cpu_seconds=round(time.process_time() - began_s, 3),
            )
        if tape is not None:
            tape.close()


async def _has_fathom_kinds(server: ServerAddress) -> bool:
    """Whether the API server has fathom.dev kinds, as its discovery says: an account without rights to them
    is refused whether they exist or not. Without them we schedule too, but without quotas, policies and
    overrides. A server that does not answer now may have them: then the caches wait for it."""
    async with api_of(server) as api:
        try:
            listed = await api.resources(QUOTA.resource.group, QUOTA.resource.version)
        except ApiError as error:
            return error.code != 404
    return any(resource.get("name") == QUOTA.resource.plural for resource in listed)


async def _attached_kinds(server: ServerAddress) -> tuple[str, ...]:
    """Of the kinds that only some Kubernetes have, or let us read, those that we may follow: caches would
    wait for others for ever. Asked at the start, so a scheduler that ran before their installation is
    restarted."""
    from fathom.attach.survey import may_follow  # noqa: PLC0415  # Only of use where fathom is attached.

    async with api_of(server) as api:
        return tuple(
            [kind.name for kind in (OVERRIDE, STORAGE_CLASS) if await may_follow(api, kind.resource)]
        )


def _shard(text: str) -> tuple[int, int]:
    match = SHARD.fullmatch(text)
    if match is None or not int(match[1]) < int(match[2]):
        raise Problem(f"--shard must read I/N with I from 0 to N-1, not {text!r}")
    return int(match[1]), int(match[2])
