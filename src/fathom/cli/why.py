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

Namespace = Annotated[str, Parameter(name=("--namespace", "-n"), help="Namespace of the pod.")]
Kubeconfig = Annotated[
    Path | None,
    Parameter(help="Kubeconfig file. Default: $KUBECONFIG, else .fathom/kubeconfig, else kubectl's."),
]
Data = Annotated[
    Path | None, Parameter(help="Data directory with the journal. Default: the directory of the kubeconfig.")
]
NODES_SHOWN = 5
SCHEDULER = "scheduler"  # Prefix of schedulers' names in records.
WAITING = frozenset({"unschedulable", "gated"})  # Verdicts whose only effect is a condition of the pod.


def why(
    subject: Annotated[str, Parameter(help="The pod, as pod/NAME.")],
    /,
    *,
    namespace: Namespace = "default",
    output: Annotated[
        Literal["", "wide", "json"],
        Parameter(name=("--output", "-o"), help="wide: name every node. json: print one JSON document."),
    ] = "",
    kubeconfig: Kubeconfig = None,
    data: Data = None,
) -> int:
    """Explain why a pod is on its node or has none, and the smallest change that helps. Exits with 1 if no
    node fits."""
    import msgspec  # noqa: PLC0415  # See the package's docstring.

    name = _pod_name(subject)
    kubeconfig = found_kubeconfig(kubeconfig)
    explanation = asyncio.run(_explain(name, namespace, kubeconfig, data or data_beside(kubeconfig)))
    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(explanation), indent=2).decode())
    else:
        say(*_explanation_lines(explanation, wide=output == "wide"))
    return 0 if explanation.schedulable else ANSWER_IS_NO


def decisions(
    subject: Annotated[
        str, Parameter(help="The object, as KIND/NAME (pods/web-1). Default: all objects.")
    ] = "",
    /,
    *,
    namespace: Annotated[
        str | None, Parameter(name=("--namespace", "-n"), help="Only objects of this namespace.")
    ] = None,
    output: Annotated[
        Literal["", "json"], Parameter(name=("--output", "-o"), help="json: print a JSON list.")
    ] = "",
    limit: Annotated[
        int,
        Parameter(
            help="Maximum number of decisions; the newest are shown.", validator=validators.Number(gte=1)
        ),
    ] = 100,
    kubeconfig: Kubeconfig = None,
    data: Data = None,
) -> int:
    """List recorded decisions and their outcomes, oldest first. Exits with 1 if there are none."""
    import msgspec  # noqa: PLC0415

    from fathom.record.journal import WantedDecisions  # noqa: PLC0415

    kind, _, name = subject.partition("/")
    records = _read_decisions(
        data or data_beside(found_kubeconfig(kubeconfig)), WantedDecisions(name=name, namespace=namespace)
    )
    kept = [record for record in records if not kind or is_of(kind, record.decision.subject.resource)][
        -limit:
    ]
    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(whole(kept)), indent=2).decode())
    elif not kept:
        say("there are no recorded decisions")
    for record in kept if output != "json" else ():
        say(_line(record))
    return 0 if kept else ANSWER_IS_NO


# Reading.


async def _explain(name: str, namespace: str, kubeconfig: Path | None, data: Path) -> Why:
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
    records = [
        record
        for record in _read_decisions(data, WantedDecisions(resource="pods", namespace=namespace, name=name))
        if record.decision.controller.startswith(SCHEDULER)
    ]
    try:
        async with api_of(find_server(kubeconfig, clock=clock, environ=os.environ)) as api:
            pod = await api.get(PODS, namespace, name)
            if pod is None and not records:
                raise Problem(f"there is no pod {namespace}/{name}, and no recorded decision about one")
            if pod is None:
                return explain_gone(f"{namespace}/{name}", records, _reasons(data, records))
            cluster, latest = await look(api)
    except (BadKubeconfig, ApiError) as error:
        on_record = f". The last recorded decision: {_line(records[-1])}" if records else ""
        raise Problem(f"{error}{on_record}") from error
    kept = tuple(record for record in records if record.decision.subject.uid == uid_of(pod))
    evidence = WhyEvidence(
        pod=pod,
        kept=kept,
        reasons=_reasons(data, kept),
        latest=latest,
        now_ns=clock.now_ns(),
        heard=bool(kept) or _has_journal(data, scheduler_of(pod)),
    )
    return explain_pod(evidence, cluster)


def _has_journal(data: Path, scheduler: str) -> bool:
    """Whether a scheduler of that name keeps its journal here: see `who_is` for the names."""
    from fathom.cli.scheduler import NAMES, who_is  # noqa: PLC0415

    process = who_is(NAMES if scheduler in NAMES else (scheduler,), (0, 1))
    return any(path.name == process or path.name.startswith(f"{process}-") for path in journals(data))


async def look(api: Api) -> tuple[ClusterView, dict[str, ReachedStage]]:
    """The cluster as a freshly started scheduler sees it, and the revision of each kind."""
    from fathom.explain.why import ReachedStage  # noqa: PLC0415
    from fathom.model.errors import ApiError  # noqa: PLC0415
    from fathom.schedule.loop.cluster_view import ClusterView  # noqa: PLC0415
    from fathom.schedule.loop.user_rules import RuleError, installed_rules  # noqa: PLC0415
    from fathom.schedule.loop.watched_kinds import KINDS  # noqa: PLC0415

    try:
        cluster = ClusterView(rules=installed_rules())
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
                cluster.put_pod(obj)
            else:
                cluster.put(kind.name, None, obj)
    return cluster, latest


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


def _read_decisions(data: Path, wanted: Any) -> list[KeptDecision]:
    from fathom.record.journal import read_journal  # noqa: PLC0415

    records = [record for path in journals(data) for record in read_journal(path, wanted)]
    return sorted(records, key=lambda record: record.decision.time_ns)


def _reasons(data: Path, kept: Sequence[KeptDecision]) -> dict[str, str] | None:
    from fathom.record.journal import node_reasons  # noqa: PLC0415

    if not kept:
        return None
    for path in journals(data):
        if (reasons := node_reasons(path, kept[-1].decision)) is not None:
            return reasons
    return None


def _pod_name(subject: str) -> str:
    kind, slash, name = subject.partition("/")
    if not slash or not name or kind not in {"pod", "pods", "po"}:
        raise Problem(f"`fathom why` explains pods: write pod/NAME, not {subject!r}")
    return name


SHORT = {
    "po": "pod", "no": "node", "ns": "namespace", "deploy": "deployment", "rs": "replicaset",
    "ep": "endpoint", "pdb": "poddisruptionbudget", "hpa": "horizontalpodautoscaler",
}  # fmt: skip


def is_of(kind: str, resource: str) -> bool:
    """Whether a kind as users write it (deploy, Deployment, deployments.apps) is a record's resource."""
    wanted = SHORT.get(kind.lower(), kind.lower())
    plural = resource.partition(".")[0]
    return wanted in {resource, plural, _singular(plural)}


def _singular(plural: str) -> str:
    for plural_ending, singular_ending in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if plural.endswith(plural_ending):
            return plural.removesuffix(plural_ending) + singular_ending
    return plural


def whole(value: Any) -> Any:
    """The record with all fields: a journal omits defaults, but readers of JSON rely on the names."""
    import msgspec  # noqa: PLC0415

    if isinstance(value, msgspec.Struct):
        return {name: whole(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {name: whole(item) for name, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, list | tuple) else value


# Output.


def _explanation_lines(explanation: Why, *, wide: bool) -> list[str]:
    lines = [explanation.summary, ""]
    for group in explanation.groups:
        shown = group.nodes if wide else group.nodes[:NODES_SHOWN]
        more = "" if len(shown) == group.count else f" and {group.count - len(shown)} more"
        lines.append(f"  {group.count:>5}  {group.reason}: {', '.join(shown)}{more}")
    if explanation.change is not None and explanation.change.nodes:
        fitting = "1 node fits" if explanation.change.nodes == 1 else f"{explanation.change.nodes} nodes fit"
        lines.append(f"  change: {explanation.change.what}, by {explanation.change.who}: {fitting} then")
    if (attempt := explanation.attempt) is not None:
        lines += _attempt_lines(explanation, wide=wide)
        considered = [
            f"{title} {', '.join(listed)}"
            for title, listed in (
                ("policy", attempt.policies), ("overrides", attempt.overrides), ("quota", attempt.quotas),
            )
            if listed
        ]  # fmt: skip
        lines.append(f"considered: {'; '.join(considered)}")
    else:
        lines.append("recorded: no attempt")
    if explanation.queue is not None:
        lines.append(
            f"place in the queue at the last attempt: {explanation.queue[0]} of {explanation.queue[1]}"
        )
    if explanation.now is not None:
        answer = "another result" if explanation.now.differs else "the same result"
        lines.append(f"decided again now: {answer}: {explanation.now.node or explanation.now.message}")
    if explanation.next_trigger:
        lines.append(f"next: {explanation.next_trigger}")
    return lines


def _attempt_lines(explanation: Why, *, wide: bool) -> list[str]:
    attempt = explanation.attempt
    assert attempt is not None
    lines = [
        f"recorded: {attempt.verdict} {attempt.id} at {attempt.time}, attempt {attempt.attempt}"
        f" of {explanation.attempts}, after {attempt.queued_ms} ms in the queue, woken by {attempt.cause}"
    ]
    if attempt.outcome:
        lines.append(f"outcome: {attempt.outcome}")
    lines += [f"preempted: {victim}" for victim in attempt.victims]
    shown = [
        entry
        for entry in explanation.freshness
        if wide or entry.kind in {"Pod", "Node"} or entry.changed > entry.used
    ]
    revisions = [
        f"{entry.kind} {entry.used} (latest {entry.latest}, changed {entry.changed}, "
        f"received {entry.age_ms} ms before)"
        for entry in shown
    ]
    if revisions:
        lines.append(f"revisions used: {'; '.join(revisions)}")
    return lines


def _line(kept: KeptDecision) -> str:

    decision = kept.decision
    subject = decision.subject
    outcomes = "; ".join(
        _outcome(outcome.result, outcome.revision, outcome.message) for outcome in kept.outcomes
    )
    node = f" {decision.node}" if decision.node else ""
    message = f": {decision.message}" if decision.message else ""
    return (
        f"{micro_timestamp(decision.time_ns)} {decision.id} {decision.controller}"
        f" {subject.resource}/{subject.namespace}/{subject.name} {decision.verdict}{node}{message}"
        f" [{decision.cause.kind} {decision.cause.text}]"
        f" {outcomes or ('no write needed' if decision.verdict in WAITING else 'no outcome')}"
    )


def _outcome(result: str, revision: int, message: str) -> str:
    return f"{result}{f' at {revision}' if revision else ''}{f' ({message})' if message else ''}"
