"""`fathom describe`: an object in words, why it is as it is, and its Events."""

from __future__ import annotations

import time
from typing import Annotated, Any
from urllib.parse import urlencode

from cyclopts import Parameter

from fathom.cli.ask.explanation_text import override_lines
from fathom.cli.ask.explanations import ApiServer, Question
from fathom.cli.objects.answers import done
from fathom.cli.objects.describing import described, one_line
from fathom.cli.objects.options import Selector, named_objects
from fathom.cli.objects.resources import Resource, Resources
from fathom.cli.objects.tables import aligned_lines
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import Problem
from fathom.cli.tables import natural
from fathom.kube.columns.times import since
from fathom.model.times import moment_ns
from fathom.terminal import say

Obj = dict[str, Any]

EVENTS_MAX = 50
# Kinds that `fathom why` knows.
EXPLAINED = frozenset(
    {
        "Pod",
        "Deployment",
        "ReplicaSet",
        "Job",
        "Node",
        "Service",
        "HorizontalPodAutoscaler",
        "PolicyRollout",
        "SchedulerOverride",
    }
)


def describe(
    *what: Annotated[
        str, Parameter(name="KIND/NAME", help="Objects, or a kind for all of them: pod/web-1; nodes")
    ],
    namespace: Namespace = "",
    selector: Selector = "",
    show_events: Annotated[bool, Parameter(help="With the Events about it.")] = True,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show an object in words, why it is as it is, and its Events.

    Prints the fields of each object, one in a line.

    fathom describe pod/web-1
    fathom describe nodes
    """
    server = ApiServer(found_kubeconfig(kubeconfig))
    at = chosen_namespace(namespace, kubeconfig)
    first = True
    for named in named_objects(what, Resources(server)):
        for obj in _objects(server, named.resource, named.names, at, selector):
            say(*([] if first else ["", ""]))
            first = False
            say(*described(obj))
            say(*_why(server, obj, at))
            if show_events:
                say(*_events(server, obj))
    if first:
        say(f"No resources found in {at} namespace.", err=True)
    return 0


def _objects(
    server: ApiServer, resource: Resource, names: tuple[str, ...], namespace: str, selector: str
) -> list[Obj]:
    """Raises Problem."""
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    if names:
        paths = [resource.path(namespace, name) for name in names]
        return [{**head, **done(*server.request("GET", path), path)} for path in paths]
    path = f"{resource.path(namespace)}?{urlencode({'labelSelector': selector} if selector else {})}"
    items = done(*server.request("GET", path), path).get("items") or ()
    return sorted(({**head, **item} for item in items), key=lambda obj: natural(obj["metadata"]["name"]))


def _why(server: ApiServer, obj: Obj, namespace: str) -> list[str]:
    """What `fathom why` says first; nothing where the server answers no questions."""
    if obj["kind"] not in EXPLAINED:
        return []
    name, at = obj["metadata"]["name"], obj["metadata"].get("namespace") or namespace
    try:
        answer = server.explain(Question(kind=obj["kind"].lower(), name=name, namespace=at))
    except Problem:
        return []
    return why_lines(answer)


def why_lines(answer: Obj) -> list[str]:
    """The verdict, and the overrides that are active. Pure."""
    return ["Why:", *(f"  {line}" for line in (str(answer.get("summary")), *override_lines(answer)))]


def _events(server: ApiServer, obj: Obj) -> list[str]:
    meta = obj["metadata"]
    query = urlencode({"fieldSelector": f"involvedObject.uid={meta.get('uid')}"})
    at = f"/namespaces/{meta['namespace']}" if meta.get("namespace") else ""
    status, answer = server.request("GET", f"/api/v1{at}/events?{query}")
    events = answer.get("items") or [] if status == 200 else []
    if not events:
        return ["Events:  <none>"]
    now_ns = time.time_ns()
    rows = [("Type", "Reason", "Age", "From", "Message"), ("----", "------", "----", "----", "-------")]
    for event in sorted(events, key=_last_ns)[-EVENTS_MAX:]:
        source = (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
        message = one_line(event.get("message"))
        age = _age(event, now_ns)
        rows.append((str(event.get("type")), str(event.get("reason")), age, str(source), message))
    return ["Events:", *(f"  {line}" for line in aligned_lines(rows))]


def _last_ns(event: Obj) -> int:
    return moment_ns(_last(event)) or 0


def _last(event: Obj) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    times = (series, event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((text for text in times if text), event["metadata"].get("creationTimestamp")))


def _age(event: Obj, now_ns: int) -> str:
    last = since(_last(event), now_ns)
    count = max(event.get("count") or 1, (event.get("series") or {}).get("count") or 1)
    if count <= 1:
        return last
    first = since(event.get("firstTimestamp") or event.get("eventTime") or _last(event), now_ns)
    return f"{last} (x{count} over {first})"
