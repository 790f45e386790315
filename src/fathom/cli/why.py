"""`fathom why` and `fathom decisions`: decisions about an object, their inputs and their outcomes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

from fathom.cli.kubeconfig import data_beside, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.model.times import micro_timestamp
from fathom.terminal import say, say_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fathom.client.api import Api
    from fathom.explain.why import ReachedStage, Why
    from fathom.model.decision import KeptDecision
    from fathom.model.objects import Obj
    from fathom.schedule.loop.cluster_view import ClusterView

Namespace = Annotated[str, Parameter(name=("--namespace", "-n"), help="The object's namespace.")]
Kubeconfig = Annotated[Path | None, Parameter(help="Default: where kubectl looks, or .fathom/kubeconfig.")]
Data = Annotated[
    Path | None, Parameter(help="Where the scheduler keeps its journal; default: beside the kubeconfig.")
]
NODES_SHOWN = 5
SCHEDULER = "scheduler"  # Prefix of schedulers' names in records.
WAITING = frozenset({"unschedulable", "gated"})  # Verdicts whose only effect is a condition of the pod.


def why(
    subject: Annotated[str, Parameter(help="pod/NAME")],
    /,
    *,
    namespace: Namespace = "default",
    output: Annotated[Literal["", "wide", "json"], Parameter(name=("--output", "-o"))] = "",
    kubeconfig: Kubeconfig = None,
    data: Data = None,
) -> int:
    """Why a pod is where it is, or nowhere: verdict, decisive rule, smallest change. Exits with 1 if no node
    takes it."""
    import msgspec  # noqa: PLC0415  # See the room's docstring.

    name = _named(subject)
    kubeconfig = found_kubeconfig(kubeconfig)
    found = asyncio.run(_asked(name, namespace, kubeconfig, data or data_beside(kubeconfig)))
    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        say(*_told(found, wide=output == "wide"))
    return 0 if found.schedulable else ANSWER_IS_NO


def decisions(
    subject: Annotated[
        str, Parameter(help="KIND/NAME, as in pods/web-1; everything where it is left out.")
    ] = "",
    /,
    *,
    namespace: Annotated[str | None, Parameter(name=("--namespace", "-n"), help="Only of this one.")] = None,
    output: Annotated[Literal["", "json"], Parameter(name=("--output", "-o"))] = "",
    limit: Annotated[int, Parameter(help="The newest so many.", validator=validators.Number(gte=1))] = 100,
    kubeconfig: Kubeconfig = None,
    data: Data = None,
) -> int:
    """Decisions on record, oldest first, with what came of them. Exits with 1 if there are none."""
    import msgspec  # noqa: PLC0415

    from fathom.record.journal import WantedDecisions  # noqa: PLC0415

    kind, _, name = subject.partition("/")
    found = _kept(
        data or data_beside(found_kubeconfig(kubeconfig)), WantedDecisions(name=name, namespace=namespace)
    )
    kept = [one for one in found if not kind or is_of(kind, one.decision.subject.resource)][-limit:]
    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(whole(kept)), indent=2).decode())
    elif not kept:
        say("no decisions on record")
    for one in kept if output != "json" else ():
        say(_line(one))
    return 0 if kept else ANSWER_IS_NO


# Reading.


async def _asked(name: str, namespace: str, kubeconfig: Path | None, data: Path) -> Why:
    from fathom.client.kubeconfig import BadKubeconfig  # noqa: PLC0415
    from fathom.client.once import api_of  # noqa: PLC0415
    from fathom.client.servers import find_server  # noqa: PLC0415
    from fathom.explain.why import WhyEvidence, explain_gone, explain_pod, scheduler_of  # noqa: PLC0415
    from fathom.model.errors import ApiError  # noqa: PLC0415
    from fathom.model.objects import uid_of  # noqa: PLC0415
    from fathom.record.journal import WantedDecisions  # noqa: PLC0415
    from fathom.schedule.loop.bind_requests import PODS  # noqa: PLC0415
    from fathom.seams.outside import live  # noqa: PLC0415

    clock = live().clock
    every = [
        one
        for one in _kept(data, WantedDecisions(resource="pods", namespace=namespace, name=name))
        if one.decision.controller.startswith(SCHEDULER)
    ]
    try:
        async with api_of(find_server(kubeconfig, clock=clock, environ=os.environ)) as api:
            pod = await api.get(PODS, namespace, name)
            if pod is None and not every:
                raise Problem(f"there is no pod {namespace}/{name}, and nothing is on record about one")
            if pod is None:
                return explain_gone(f"{namespace}/{name}", every, _reasons(data, every))
            known, latest = await look(api)
    except (BadKubeconfig, ApiError) as error:
        on_record = f". The last on record: {_line(every[-1])}" if every else ""
        raise Problem(f"{error}{on_record}") from error
    kept = tuple(one for one in every if one.decision.subject.uid == uid_of(pod))
    evidence = WhyEvidence(
        pod=pod,
        kept=kept,
        reasons=_reasons(data, kept),
        latest=latest,
        now_ns=clock.now_ns(),
        heard=bool(kept) or _is_heard(data, scheduler_of(pod)),
    )
    return explain_pod(evidence, known)


def _is_heard(data: Path, scheduler: str) -> bool:
    """Whether a scheduler of that name keeps its journal here: see `who_is` for the names."""
    from fathom.cli.scheduler import NAMES, who_is  # noqa: PLC0415

    who = who_is(NAMES if scheduler in NAMES else (scheduler,), (0, 1))
    return any(path.name == who or path.name.startswith(f"{who}-") for path in journals(data))


async def look(api: Api) -> tuple[ClusterView, dict[str, ReachedStage]]:
    """The cluster as a freshly started scheduler sees it, and the revision of each kind."""
    from fathom.explain.why import ReachedStage  # noqa: PLC0415
    from fathom.model.errors import ApiError  # noqa: PLC0415
    from fathom.schedule.loop.cluster_view import ClusterView  # noqa: PLC0415
    from fathom.schedule.loop.user_rules import RuleError, installed_rules  # noqa: PLC0415
    from fathom.schedule.loop.watched_kinds import KINDS  # noqa: PLC0415

    try:
        known = ClusterView(rules=installed_rules())
    except RuleError as error:
        raise Problem(str(error)) from error
    latest: dict[str, ReachedStage] = {}
    ordered = sorted(KINDS, key=lambda kind: kind.name == "Pod")  # Pods last: namespaces name tenants.
    for kind in ordered:
        try:
            listed, revision = await _all(api, kind.resource)
        except ApiError as error:
            if error.code != 404 or kind.resource.group != "fathom.dev":
                raise
            continue  # The API server has no fathom.dev kinds.
        changed = max((int(obj["metadata"]["resourceVersion"]) for obj in listed), default=0)
        latest[kind.name] = ReachedStage(revision, changed)
        for obj in listed:
            if kind.name == "Pod":
                known.put_pod(obj)
            else:
                known.put(kind.name, None, obj)
    return known, latest


async def _all(api: Api, resource: Any) -> tuple[list[Obj], int]:
    page = await api.list_page(resource)
    items = page.items
    while page.token:
        page = await api.list_page(resource, token=page.token)
        items += page.items
    return items, page.revision


def journals(data: Path) -> list[Path]:
    """The journals of a data directory: one for each process that decides."""
    from fathom.schedule.loop.live import JOURNALS  # noqa: PLC0415

    root = data / JOURNALS
    return [path for path in (root, *sorted(root.glob("*"))) if any(path.glob("*.seg"))]


def _kept(data: Path, wanted: Any) -> list[KeptDecision]:
    from fathom.record.journal import read_journal  # noqa: PLC0415

    found = [one for path in journals(data) for one in read_journal(path, wanted)]
    return sorted(found, key=lambda one: one.decision.time_ns)


def _reasons(data: Path, kept: Sequence[KeptDecision]) -> dict[str, str] | None:
    from fathom.record.journal import node_reasons  # noqa: PLC0415

    if not kept:
        return None
    for path in journals(data):
        if (found := node_reasons(path, kept[-1].decision)) is not None:
            return found
    return None


def _named(subject: str) -> str:
    kind, slash, name = subject.partition("/")
    if not slash or not name or kind not in {"pod", "pods", "po"}:
        raise Problem(f"'why' explains pods: pod/NAME, not {subject!r}")
    return name


SHORT = {
    "po": "pod", "no": "node", "ns": "namespace", "deploy": "deployment", "rs": "replicaset",
    "ep": "endpoint", "pdb": "poddisruptionbudget", "hpa": "horizontalpodautoscaler",
}  # fmt: skip


def is_of(kind: str, resource: str) -> bool:
    """Whether a kind as users write it (deploy, Deployment, deployments.apps) is a record's resource."""
    asked = SHORT.get(kind.lower(), kind.lower())
    plural = resource.partition(".")[0]
    return asked in {resource, plural, _singular(plural)}


def _singular(plural: str) -> str:
    for ending, one in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if plural.endswith(ending):
            return plural.removesuffix(ending) + one
    return plural


def whole(value: Any) -> Any:
    """The record with all fields: a journal omits defaults, but readers of JSON rely on the names."""
    import msgspec  # noqa: PLC0415

    if isinstance(value, msgspec.Struct):
        return {name: whole(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {name: whole(one) for name, one in value.items()}
    return [whole(one) for one in value] if isinstance(value, list | tuple) else value


# Output.


def _told(found: Why, *, wide: bool) -> list[str]:
    lines = [found.summary, ""]
    for group in found.groups:
        shown = group.nodes if wide else group.nodes[:NODES_SHOWN]
        more = "" if len(shown) == group.count else f" and {group.count - len(shown)} more"
        lines.append(f"  {group.count:>5}  {group.reason}: {', '.join(shown)}{more}")
    if found.change is not None and found.change.nodes:
        opens = "1 node" if found.change.nodes == 1 else f"{found.change.nodes} nodes"
        lines.append(f"  change: {found.change.what}, by {found.change.who}: opens {opens}")
    if (attempt := found.attempt) is not None:
        lines += _told_attempt(found, wide=wide)
        considered = [
            f"{title} {', '.join(listed)}"
            for title, listed in (
                ("policy", attempt.policies), ("overrides", attempt.overrides), ("quota", attempt.quotas),
            )
            if listed
        ]  # fmt: skip
        lines.append(f"considered: {'; '.join(considered)}")
    else:
        lines.append("on record: no attempt")
    if found.queue is not None:
        lines.append(f"in line: {found.queue[0]} of {found.queue[1]} when it was last taken")
    if found.now is not None:
        same = "another answer" if found.now.differs else "the same answer"
        lines.append(f"asked again now: {same}: {found.now.node or found.now.message}")
    if found.next_trigger:
        lines.append(f"next: {found.next_trigger}")
    return lines


def _told_attempt(found: Why, *, wide: bool) -> list[str]:
    attempt = found.attempt
    assert attempt is not None
    lines = [
        f"on record: {attempt.verdict} {attempt.id} at {attempt.time}, attempt {attempt.attempt}"
        f" of {found.attempts} seen, after {attempt.queued_ms} ms in line; woken by {attempt.cause}"
    ]
    if attempt.outcome:
        lines.append(f"outcome: {attempt.outcome}")
    lines += [f"asked to leave: {victim}" for victim in attempt.victims]
    behind = [one for one in found.freshness if wide or one.kind in {"Pod", "Node"} or one.changed > one.used]
    told = [
        f"{one.kind} {one.used} (latest {one.latest}, changed {one.changed}, heard {one.age_ms} ms before)"
        for one in behind
    ]
    if told:
        lines.append(f"revisions used: {'; '.join(told)}")
    return lines


def _line(kept: KeptDecision) -> str:

    decision = kept.decision
    subject = decision.subject
    outcome = "; ".join(_outcome(one.result, one.revision, one.message) for one in kept.outcomes)
    what = f" {decision.node}" if decision.node else ""
    said = f": {decision.message}" if decision.message else ""
    return (
        f"{micro_timestamp(decision.time_ns)} {decision.id} {decision.controller}"
        f" {subject.resource}/{subject.namespace}/{subject.name} {decision.verdict}{what}{said}"
        f" [{decision.cause} {decision.cause_detail}]"
        f" {outcome or ('nothing to send' if decision.verdict in WAITING else 'no outcome')}"
    )


def _outcome(result: str, revision: int, message: str) -> str:
    return f"{result}{f' at {revision}' if revision else ''}{f' ({message})' if message else ''}"
