"""`fathom status`: the debug view of one workload, joined from decisions, caches, conditions and audit."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from fathom.cli.kubeconfig import data_beside, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.why import Data, Kubeconfig, Namespace
from fathom.terminal import say, say_json

if TYPE_CHECKING:
    from pathlib import Path

    from fathom.client.api import Api
    from fathom.explain.evidence import ObjectRef

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
    subject: Annotated[str, Parameter(help="The workload, as KIND/NAME: deployment/web.")],
    /,
    *,
    namespace: Namespace = "default",
    output: Annotated[
        Literal["", "wide", "json"],
        Parameter(name=("--output", "-o"), help="wide: the source of every field. json: one JSON document."),
    ] = "",
    kubeconfig: Kubeconfig = None,
    data: Data = None,
) -> int:
    """Show what the control plane knows about a workload: generation, rollback, pending replicas, the last
    scheduling reason, the revisions it used and the latest ones, autoscaler, repair. Exits with 1 if replicas
    are pending."""
    import msgspec  # noqa: PLC0415  # See the package's docstring.

    kubeconfig = found_kubeconfig(kubeconfig)
    view = asyncio.run(_ask(subject, namespace, kubeconfig, data or data_beside(kubeconfig)))
    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(view), indent=2).decode())
    else:
        say(*status_lines(view, wide=output == "wide"))
    return ANSWER_IS_NO if view["pendingReplicas"]["value"] else 0


# Asking.


async def _ask(subject: str, namespace: str, kubeconfig: Path | None, data: Path) -> View:
    import msgspec  # noqa: PLC0415

    from fathom.cli.read_evidence import answer_locally, resource_named  # noqa: PLC0415
    from fathom.client.kubeconfig import BadKubeconfig  # noqa: PLC0415
    from fathom.client.once import api_of  # noqa: PLC0415
    from fathom.client.servers import find_server  # noqa: PLC0415
    from fathom.explain.evidence import ObjectRef  # noqa: PLC0415
    from fathom.explain.questions import STATUS  # noqa: PLC0415
    from fathom.explain.status import NoSubject  # noqa: PLC0415
    from fathom.model.errors import ApiError  # noqa: PLC0415
    from fathom.seams.outside import live  # noqa: PLC0415

    kind, slash, name = subject.partition("/")
    resource = resource_named(kind)
    if not slash or not name or resource is None:
        raise Problem(f"write the workload as KIND/NAME, such as deployment/web, not {subject!r}")
    about = ObjectRef(resource.name, namespace if resource.namespaced else "", name)
    clock = live().clock
    try:
        async with api_of(find_server(kubeconfig, clock=clock, environ=os.environ)) as api:
            answered = await ask_api(api, about, STATUS)
            if answered is not None:
                return answered
            view = await answer_locally(api, about, data, now_ns=clock.now_ns(), view=STATUS)
    except (BadKubeconfig, ApiError, NoSubject) as error:
        raise Problem(str(error)) from error
    document: View = msgspec.to_builtins(view)
    return document


async def ask_api(api: Api, about: ObjectRef, view: str) -> View | None:
    """The API server's answer; None if it answers no such questions. Raises ApiError."""
    from fathom.client.api import Resource  # noqa: PLC0415
    from fathom.client.outcomes import Committed, Rejected  # noqa: PLC0415
    from fathom.model.accounts import SYSTEM_NAMESPACE  # noqa: PLC0415
    from fathom.model.errors import ApiError  # noqa: PLC0415

    subject = {"resource": about.resource, "name": about.name}
    question = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Explanation",
        "spec": {"subject": subject, "view": view},
    }
    explanations = Resource("fathom.dev", "v1alpha1", "explanations")
    outcome = await api.create(explanations, about.namespace or SYSTEM_NAMESPACE, question)
    if isinstance(outcome, Committed):
        answer: View = outcome.obj.get("status") or {}
        return answer if "pendingReplicas" in answer or view != "status" else None
    if isinstance(outcome, Rejected) and outcome.code in {404, 405, 501}:
        return None
    if isinstance(outcome, Rejected):
        raise ApiError(outcome.code, outcome.reason, outcome.message)
    raise Problem(f"the API server did not answer: {outcome}")


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
    ]
    if not pending["value"]:
        rows.insert(2, ("pending replicas", {**pending, "value": "none"}))
    for other in view["cacheRevision"]:
        if other != kind and (wide or _is_behind(view, other)):
            rows += _revision_rows(view, other, f"scheduler cache RV of {other}", f"{other} latest RV")
    lines = [f"workload: {view['workload']['name']}"]
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
    nothing = {"value": None, "source": "no data"}
    return [
        (used, view["cacheRevision"].get(kind, nothing)),
        (latest, view["latestRevision"].get(kind, nothing)),
    ]


def _shown(value: object) -> str:
    if isinstance(value, dict):  # A condition.
        return (
            f"{value.get('type')}={value.get('status')}, observedGeneration={value.get('observedGeneration')}"
        )
    if value is None:
        return "no data"
    return str(value).lower() if isinstance(value, bool) else str(value)
