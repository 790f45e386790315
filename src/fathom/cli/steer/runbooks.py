"""Finds runbooks and runs, and carries runs out at a terminal, for `fathom runbook`."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from fathom.cli.api_server import found_server
from fathom.cli.confirmation import confirm, place_of
from fathom.cli.problem import Problem
from fathom.cli.tables import age
from fathom.client.api import Api, own_resource
from fathom.client.once import api_of
from fathom.client.outcomes import Committed, Rejected
from fathom.client.server_address import ServerAddress
from fathom.kinds import runbook, runbook_run
from fathom.kinds.runbook import Runbook, RunbookSpec, spec_hash
from fathom.kinds.runbook_run import PinnedRunbook, RunbookRun, RunbookRunSpec, RunbookRunStatus
from fathom.kinds.shape import API_VERSION, Meta, read
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, key_of, lookup, metadata
from fathom.model.resource import Resource
from fathom.model.times import micro_timestamp, moment_ns
from fathom.seams.outside import SystemClock, live
from fathom.steer.actions import describe
from fathom.steer.conditions import Conditions
from fathom.steer.confirmations import confirmed_writes
from fathom.steer.record_writer import RUNS, RunLost
from fathom.steer.report import report_text
from fathom.steer.runbook_library import library
from fathom.steer.runner import Runner, Surroundings, is_held
from fathom.steer.templates import filled_struct, filled_text, resolved, run_values
from fathom.terminal import say

RUNBOOKS = own_resource(runbook.DEFINITION)
SELF_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", namespaced=False)
RUNBOOK_COLUMNS = ("NAMESPACE", "NAME", "VERSION", "SOURCE", "TITLE")
RUN_COLUMNS = ("NAMESPACE", "NAME", "RUNBOOK", "PHASE", "AUTHOR", "HOLDER", "MESSAGE")
WIDE_COLUMNS, WIDE_RUN_COLUMNS = ("NEEDS", "HASH"), ("REASON", "AGE")
LIBRARY = "library"
HASH_SHOWN = 12


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as the user asks for it."""

    runbook: str
    namespace: str
    parameters: Mapping[str, str]
    name: str
    reason: str
    answers: Mapping[str, str]
    yes: bool


class FoundRunbook(msgspec.Struct, frozen=True):
    name: str
    source: str
    spec: RunbookSpec


@asynccontextmanager
async def connected(where: Path | ServerAddress | None) -> AsyncIterator[Api]:
    try:
        async with api_of(found_server(where)) as api:
            yield api
    except ApiError as error:
        raise Problem(str(error)) from error


# Finding.


def warn(line: str) -> None:
    say(f"fathom: {line}", err=True)


async def listed(
    kubeconfig: Path | ServerAddress | None,
    namespace: str,
    *,
    runs: bool,
    warn: Callable[[str], None] = warn,
) -> tuple[list[tuple[str, ...]], list[Obj]]:
    """The rows of the table, and the objects. The library is listed also where no server answers."""
    if runs:
        async with connected(kubeconfig) as api:
            stored = await _all(api, RUNS, namespace)
        return [_run_row(read(RunbookRun, obj)) for obj in stored], stored
    books = [(_book_row(book, LIBRARY), as_object(book)) for book in library().values()]
    try:
        async with connected(kubeconfig) as api:
            stored = await _all(api, RUNBOOKS, namespace)
    except Problem as problem:
        warn(f"runbooks of the cluster are not listed: {problem}")
        stored = []
    books += [(_book_row(read(Runbook, obj), "cluster"), obj) for obj in stored]
    return [row for row, _ in books], [obj for _, obj in books]


async def _all(api: Api, resource: Resource, namespace: str) -> list[Obj]:
    page = await api.list_page(resource, namespace)
    objects = list(page.items)
    while page.token:
        page = await api.list_page(resource, namespace, token=page.token)
        objects += page.items
    return objects


def _book_row(book: Runbook, source: str) -> tuple[str, ...]:
    return book.metadata.namespace or "-", book.metadata.name, str(book.spec.version), source, book.spec.title


def _run_row(run: RunbookRun) -> tuple[str, ...]:
    meta, status = run.metadata, run.status
    who = (status.author, status.holder.name)
    return meta.namespace, meta.name, run.spec.runbook.name, status.phase, *who, status.message


def widened(
    rows: list[tuple[str, ...]], objects: list[Obj], *, runs: bool
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and rows of the wide table."""
    head = (*RUN_COLUMNS, *WIDE_RUN_COLUMNS) if runs else (*RUNBOOK_COLUMNS, *WIDE_COLUMNS)
    now_ns = live().clock.now_ns()
    cells = [_wide_run(obj, now_ns) if runs else _wide_book(obj) for obj in objects]
    return head, [(*row, *more) for row, more in zip(rows, cells, strict=True)]


def _wide_book(obj: Obj) -> tuple[str, ...]:
    spec = read(Runbook, obj).spec
    needed = [parameter.name for parameter in spec.parameters if parameter.default is None]
    return ",".join(needed) or "-", spec_hash(spec)[:HASH_SHOWN]


def _wide_run(obj: Obj, now_ns: int) -> tuple[str, ...]:
    run = read(RunbookRun, obj)
    started_ns = moment_ns(run.status.started_at or obj["metadata"].get("creationTimestamp"))
    return run.spec.reason or "-", age(started_ns or now_ns, now_ns)


def as_object(book: Runbook) -> Obj:
    plain: Obj = msgspec.json.decode(msgspec.json.encode(book))
    return {"apiVersion": API_VERSION, "kind": runbook.DEFINITION.kind, **plain}


async def find_runbook(api: Api | None, namespace: str, name: str) -> FoundRunbook:
    """A runbook that is stored in the namespace, else one of the library. Raises Problem."""
    stored = await api.get(RUNBOOKS, namespace, name) if api is not None else None
    if stored is not None:
        return FoundRunbook(name, "cluster", read(Runbook, stored).spec)
    book = library().get(name)
    if book is None:
        raise Problem(f"there is no runbook {name}; list them with `fathom runbook list`")
    return FoundRunbook(name, LIBRARY, book.spec)


async def find_run(api: Api, namespace: str, name: str) -> Obj:
    run = await api.get(RUNS, namespace, name)
    if run is None:
        raise Problem(f"there is no run {namespace}/{name}; list them with `fathom runbook list --runs`")
    return run


# Drafts of runs.


def planned_steps(run: RunbookRun) -> list[str]:
    values = run_values(run)
    lines = []
    for step in run.spec.content.steps:
        action = filled_struct(step.action, values)
        lines.append(f"  {step.id}: {filled_text(step.title, values) or describe(action)}")
        lines += [f"    does: {describe(action)}"] if step.title else []
        lines += [f"    expects: {each.name}" for each in step.expect]
        if step.compensation is not None:
            lines.append(f"    undone by: {describe(filled_struct(step.compensation, values))}")
        elif not step.reversible:
            lines.append("    cannot be undone")
    return lines


def draft_of(
    runbook: FoundRunbook,
    namespace: str,
    name: str,
    parameters: Mapping[str, str],
    reason: str,
    *,
    requested_through: str = "",
) -> RunbookRun:
    """Raises BadParameter."""
    pinned = PinnedRunbook(
        name=runbook.name, source=runbook.source, version=runbook.spec.version, hash=spec_hash(runbook.spec)
    )
    spec = RunbookRunSpec(
        runbook=pinned,
        content=runbook.spec,
        parameters=resolved(runbook.name, runbook.spec, parameters),
        reason=reason,
        requested_through=requested_through,
    )
    return RunbookRun(metadata=Meta(name=name, namespace=namespace), spec=spec)


# Carrying out.


async def start_run(kubeconfig: Path | None, request: RunRequest) -> RunbookRunStatus:
    async with connected(kubeconfig) as api:
        runbook = await find_runbook(api, request.namespace, request.runbook)
        name = request.name or f"{request.runbook}-{live().ids.suffix()}"
        draft = draft_of(runbook, request.namespace, name, request.parameters, request.reason)
        Conditions(runbook.spec)  # Before anything is written: every expression compiles.
        holder = await _whoami(api)
        if not request.yes:
            where = f"context {place_of(kubeconfig)}"
            say(where, f"{runbook.name} version {runbook.spec.version} in {request.namespace}, as {holder}:")
            say(*planned_steps(draft))
            confirm("Carry it out?", yes=False)
        run = await created_run(api, draft)
        say(f"run {request.namespace}/{name} of {runbook.name}, hash {draft.spec.runbook.hash[:12]}")
        return await _carried_out(api, run, holder, request.answers)


async def created_run(api: Api, draft: RunbookRun) -> Obj:
    plain: Obj = msgspec.json.decode(msgspec.json.encode(draft))
    meta, body = draft.metadata, {"apiVersion": API_VERSION, "kind": runbook_run.DEFINITION.kind, **plain}
    outcome = await api.create(RUNS, meta.namespace, body)
    if isinstance(outcome, Rejected):
        raise Problem(outcome.message)
    return outcome.obj if isinstance(outcome, Committed) else await find_run(api, meta.namespace, meta.name)


async def resume_run(
    kubeconfig: Path | None,
    namespace: str,
    name: str,
    answers: Mapping[str, str],
    *,
    take_over: bool,
    yes: bool = False,
) -> RunbookRunStatus:
    """Of one's own run, a person at a terminal is asked; of somebody else's, everybody, with its steps."""
    async with connected(kubeconfig) as api:
        run = await find_run(api, namespace, name)
        status = read(RunbookRun, run).status
        if is_held(status, live().clock.now_ns()) and not take_over:
            raise Problem(
                f"{status.holder.name} is at work on {name} (last heard of at {status.holder.renewed_at}): "
                "wait, or take the run over with --take-over"
            )
        await _warn_of_another_version(api, read(RunbookRun, run))
        holder = await _whoami(api)
        is_own = status.author == holder.rpartition("@")[0]
        if not is_own and not yes:
            _show_steps_of(read(RunbookRun, run), holder)
        if not yes and (not is_own or sys.stdin.isatty()):
            _ask(kubeconfig, run, "Go on with it?")
        return await _carried_out(api, run, holder, answers)


def _show_steps_of(run: RunbookRun, holder: str) -> None:
    """Whoever began a run chose its steps, and they are carried out with our rights, which may be greater."""
    meta = run.metadata
    say(f"{meta.namespace}/{meta.name} was begun by {run.status.author}. Its steps, done as {holder}:")
    say(*planned_steps(run))


async def _warn_of_another_version(api: Api, run: RunbookRun) -> None:
    """A run goes on with the runbook that it began with."""
    pinned = run.spec.runbook
    try:
        now = await find_runbook(api, run.metadata.namespace, pinned.name)
    except Problem:
        say(f"the runbook {pinned.name} does not exist any more; the run has a copy", err=True)
        return
    if spec_hash(now.spec) != pinned.hash:
        say(
            f"the runbook {pinned.name} has changed: the run goes on with version {pinned.version}, not"
            f" {now.spec.version}",
            err=True,
        )


async def abort_run(
    kubeconfig: Path | None, namespace: str, name: str, reason: str, *, yes: bool
) -> RunbookRunStatus:
    async with connected(kubeconfig) as api:
        run = await find_run(api, namespace, name)
        holder = await _whoami(api)
        if not yes:
            _show_steps_of(read(RunbookRun, run), holder)
            _ask(kubeconfig, run, "Undo it?")
        return await _carried_out(api, run, holder, {}, abort=reason)


async def _carried_out(
    api: Api, run: Obj, holder: str, answers: Mapping[str, str], *, abort: str | None = None
) -> RunbookRunStatus:
    """`abort`: why the run is undone; None: it goes on."""
    namespace, name = str(metadata(run)["namespace"]), str(metadata(run)["name"])
    runner = Runner(api, run, holder=holder, around=_terminal(answers))
    try:
        status = await (runner.resume() if abort is None else runner.abort(abort))
    except (asyncio.CancelledError, RunLost, ApiError):
        say(f"the run is left as it is; go on with: fathom runbook resume {name} -n {namespace}", err=True)
        raise
    say(f"{namespace}/{name}: {status.phase}{': ' if status.message else ''}{status.message}")
    if status.phase in (runbook_run.STOPPED, runbook_run.WAITING, runbook_run.FAILED):
        say(
            f"go on with: fathom runbook resume {name} -n {namespace}",
            f"or undo it with: fathom runbook abort {name} -n {namespace}",
            err=True,
        )
    return status


def _terminal(answers: Mapping[str, str]) -> Surroundings:
    clock = SystemClock()

    def tell(line: str) -> None:
        say(f"{micro_timestamp(clock.now_ns())[11:19]}  {line}")

    async def answer(step: str, question: str) -> str:
        if step in answers:
            return answers[step]
        if not sys.stdin.isatty():
            return ""
        say(f"{question} [yes/no]")
        word = (await asyncio.to_thread(sys.stdin.readline)).strip().lower()
        return "yes" if word in ("y", "yes") else "no"

    return Surroundings(
        now_ns=clock.now_ns, elapsed_ns=clock.since_boot_ns, sleep=asyncio.sleep, tell=tell, answer=answer
    )


def _ask(kubeconfig: Path | None, run: Obj, question: str) -> None:
    """Raises Problem unless somebody at a terminal agrees, who sees where and about what."""
    status, key = read(RunbookRun, run).status, key_of(run)
    state = f"run {key.namespace}/{key.name}: {status.phase} {status.message}".rstrip()
    say(f"context {place_of(kubeconfig)}", state)
    confirm(question, yes=False)


async def _whoami(api: Api) -> str:
    """'jane@laptop'. For people; who wrote what is stamped by the server."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    outcome = await api.create(SELF_REVIEWS, "", review)
    user = lookup(outcome.obj, "status", "userInfo", "username") if isinstance(outcome, Committed) else None
    return f"{user or 'somebody'}@{socket.gethostname()}"


async def run_object(kubeconfig: Path | ServerAddress | None, namespace: str, name: str) -> Obj:
    async with connected(kubeconfig) as api:
        return await find_run(api, namespace, name)


async def report_of(kubeconfig: Path | ServerAddress | None, namespace: str, name: str) -> str:
    async with connected(kubeconfig) as api:
        run = read(RunbookRun, await find_run(api, namespace, name))
        return report_text(run, await confirmed_writes(api, run.status))
