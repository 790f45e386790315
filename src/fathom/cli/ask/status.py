"""`fathom status`: the debug view of one workload, joined from decisions, caches, conditions and audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fathom.cli.ask.explanation_text import moment_lines, override_lines
from fathom.cli.ask.why import At
from fathom.cli.output import DOCUMENTS, output_parameter, print_document
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say

if TYPE_CHECKING:
    from pathlib import Path

View = dict[str, Any]

# The kind that a scheduling reason is about, and the component that writes it.
KIND_OF_BOUNDARY = {
    "quota": ("TenantQuota", "quota controller"),
    "topology": ("Node", "node"),
    "capacity": ("Node", "node"),
    "nodes": ("Node", "node"),
    "node": ("Node", "node"),
}


def status(
    subject: Annotated[str, Parameter(name="KIND/NAME", help="The workload, as KIND/NAME: deployment/web.")],
    /,
    *,
    namespace: Namespace = "",
    at: At = "",
    output: Annotated[
        str,
        output_parameter(
            "wide",
            "json",
            "yaml",
            "name",
            help="wide: the source of every field. json, yaml: one document. name: the workload alone.",
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show what the control plane knows about a workload: generation, rollback, pending replicas, the last
    scheduling reason, the revisions it used and the latest ones, autoscaler, repair, the error rates of its
    Services. Exits with 1 if replicas are pending.

    Prints a sentence that says how it is, then a line for each of these.

    fathom status deployment/web
    fathom status deployment/web -o wide  where each fact comes from
    """
    view = _ask(subject, namespace, at, kubeconfig)
    if output in DOCUMENTS:
        print_document(view, output)
    elif output == "name":
        say(f"{view['workload']['resource']}/{view['workload']['name']}")
    else:
        say(*status_lines(view, wide=output == "wide"))
    return ANSWER_IS_NO if view["pendingReplicas"]["value"] else 0


# Asking.


def _ask(subject: str, namespace: str, at: str, kubeconfig: Path | None) -> View:
    from fathom.cli.ask.explanations import ApiServer, Question  # noqa: PLC0415

    kind, slash, name = subject.partition("/")
    if not slash or not kind or not name:
        raise Problem(f"write the workload as KIND/NAME, such as deployment/web, not {subject!r}")
    where = chosen_namespace(namespace, kubeconfig)
    question = Question(kind=kind, name=name, namespace=where, view="status", at=at)
    return ApiServer(found_kubeconfig(kubeconfig)).explain(question)


# Output.


def status_lines(view: View, *, wide: bool = False) -> list[str]:
    """The lines of the view, in the order of the lesson's example; with `wide`, the source after each."""
    kind, writer = _decisive_kind(view)
    pending = view["pendingReplicas"]
    rows: list[tuple[str, View]] = [
        ("generation", view["generation"]),
        ("rollback observed by scheduler", view["rollbackObserved"]),
        *[("pending replica", {**pending, "value": name}) for name in pending["value"]],
        ("last scheduling reason", view["lastReason"]),
        *_revision_rows(view, kind, "scheduler cache RV", f"{writer} latest RV"),
        ("autoscaler reason", view["autoscalerReason"]),
        ("repair condition", view["repairCondition"]),
        *[(f"service {name}", _level(entry)) for name, entry in (view.get("serviceLevels") or {}).items()],
    ]
    if not pending["value"]:
        rows.insert(2, ("pending replicas", {**pending, "value": "none"}))
    for other in view["cacheRevision"]:
        if other != kind and (wide or _is_behind(view, other)):
            rows += _revision_rows(view, other, f"scheduler cache RV of {other}", f"{other} latest RV")
    verdict = [view["summary"]] if view.get("summary") else []  # An older server has none.
    lines = [*verdict, f"workload: {view['workload']['name']}", *moment_lines(view), *override_lines(view)]
    for name, entry in rows:
        lines.append(f"{name}: {_shown(entry['value'])}" + (f"   [{entry['source']}]" if wide else ""))
        if entry["value"] is None and not wide:
            lines[-1] += f" ({entry['source']})"
    return [*lines, *(f"no data from {gap['source']}: {gap['why']}" for gap in view.get("gaps") or ())]


def _decisive_kind(view: View) -> tuple[str, str]:
    """The kind that the last reason is about, as far as its revisions are known; else one that is behind."""
    boundary = str(view["lastReason"]["value"] or "").partition("/")[0]
    kind, writer = KIND_OF_BOUNDARY.get(boundary, ("", ""))
    if kind in view["cacheRevision"]:
        return kind, writer
    behind = [name for name in view["cacheRevision"] if _is_behind(view, name)]
    return (behind[0], behind[0]) if behind else ("Node", "node")


def _is_behind(view: View, kind: str) -> bool:
    latest = (view["latestRevision"].get(kind) or {}).get("value") or 0
    return bool((view["cacheRevision"][kind]["value"] or 0) < latest)


def _revision_rows(view: View, kind: str, used: str, latest: str) -> list[tuple[str, View]]:
    nothing = {"value": None, "source": "no scheduler that answers reports it"}
    return [
        (used, view["cacheRevision"].get(kind, nothing)),
        (latest, view["latestRevision"].get(kind, nothing)),
    ]


def _level(entry: View) -> View:
    """'error rate 2.00 % in 5m, SLO burn 20.0; …', one part for each window."""
    level = entry["value"]
    if level is None:
        return entry
    parts = [
        f"error rate {rate:.2%} in {window}, SLO burn {level['burnRate'][window]:.1f}"
        for window, rate in level["errorRate"].items()
        if rate is not None
    ]
    return {**entry, "value": "; ".join(parts)}


def _shown(value: object) -> str:
    if isinstance(value, dict):  # A condition.
        return (
            f"{value.get('type')}={value.get('status')}, observedGeneration={value.get('observedGeneration')}"
        )
    if value is None:
        return "no data"
    return str(value).lower() if isinstance(value, bool) else str(value)
