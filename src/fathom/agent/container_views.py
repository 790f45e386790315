"""Frozen views of a pod's containers at one moment, and the containers of a pod's spec.

Plans and statuses are made from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from fathom.agent.runtime import ContainerRun
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.times import SECOND_NS, moment_ns

ALL_ANEW = "RestartAllContainers"

Role = Literal["init", "sidecar", "main"]


class Health(msgspec.Struct, frozen=True):
    """Health of a run, by its probes."""

    started: bool = False  # The startup probe has passed, or there is none.
    ready: bool = False
    sick: str = ""  # Why it must be stopped: its liveness or startup probe, or a hook, failed for good.
    said: str = ""  # Message of the last failed probe.
    note: str = ""  # A note for users: the program bound every address.
    sick_reason: str = ""  # The id of `sick`, if it has one: LivenessProbeFailed.


class ContainerTrouble(msgspec.Struct, frozen=True):
    """Why a container could not be started."""

    reason: str
    message: str
    at_ns: int
    count: int = 1  # In a row.
    image: str = ""  # That the container had: with another one it is tried again at once.


class ContainerView(msgspec.Struct, frozen=True):
    run: ContainerRun | None = None  # The newest.
    previous: ContainerRun | None = None
    health: Health = Health()
    trouble: ContainerTrouble | None = None
    busy: bool = False  # An action on it is running.
    kill_ns: int = 0  # When it will be killed, after SIGTERM; 0: it is not being stopped.
    killed: bool = False
    stale: bool = False  # All containers of the pod restart, and this run began before that.

    @property
    def running(self) -> bool:
        return self.run is not None and self.run.exit is None


Views = Mapping[str, ContainerView]


class Container(msgspec.Struct, frozen=True):
    name: str
    role: Role
    spec: Obj


def containers_of(pod: Obj) -> tuple[Container, ...]:
    """The pod's containers in start order."""
    spec = pod.get("spec") or {}
    first = [
        Container(
            container["name"], "sidecar" if container.get("restartPolicy") == "Always" else "init", container
        )
        for container in spec.get("initContainers") or ()
    ]
    return (
        *first,
        *(Container(container["name"], "main", container) for container in spec.get("containers") or ()),
    )


def restarts_for(container: Container, pod: Obj, code: int) -> bool:
    """Whether an exit with this code is followed by another run: by the container's rules, its own policy or
    the pod's, in this order."""
    if container.role == "sidecar" or rule_for(container, code):
        return True
    policy = container.spec.get("restartPolicy") or lookup(pod, "spec", "restartPolicy") or "Always"
    if container.role == "init":
        return code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def rule_for(container: Container, code: int) -> str:
    """The action of the first rule that matches this exit code; '': no rule matches."""
    for rule in container.spec.get("restartPolicyRules") or ():
        listed = code in (lookup(rule, "exitCodes", "values") or ())
        if listed is (lookup(rule, "exitCodes", "operator") == "In"):
            return str(rule.get("action"))
    return ""


def all_anew_ns(pod: Obj, views: Views) -> int:
    """When a container last ended with an exit that restarts all containers of the pod; 0: never."""
    latest_ns = 0
    for container in containers_of(pod):
        view = views.get(container.name)
        if view is None or "restartPolicyRules" not in container.spec:
            continue
        for exit_ in (run.exit for run in (view.run, view.previous) if run is not None):
            if exit_ is not None and rule_for(container, exit_.code) == ALL_ANEW:
                latest_ns = max(latest_ns, exit_.finished_ns)
    return latest_ns


def with_stale(pod: Obj, views: Views) -> Views:
    """The views with `stale` set. It follows from the runs alone, so a restarted agent computes the same."""
    at_ns = all_anew_ns(pod, views)
    if not at_ns:
        return views
    return {
        name: msgspec.structs.replace(view, stale=view.run is not None and view.run.started_ns < at_ns)
        for name, view in views.items()
    }


def grace_s(pod: Obj) -> int:
    """The pod's default grace period."""
    seconds = lookup(pod, "spec", "terminationGracePeriodSeconds")
    return seconds if isinstance(seconds, int) else 30


def ns_of(stamp: str) -> int:
    """Nanoseconds since the epoch. The API server has validated the stamp, so it can be parsed."""
    at_ns = moment_ns(stamp)
    assert at_ns is not None, stamp
    return at_ns


ALONE_S = "fathom.dev/stop-when-alone-seconds"  # Annotation.
ALONE_S_MIN = 30.0  # Three heartbeats: a late one is no partition.


def alone_until_ns(pod: Obj, heard_ns: int | None) -> int | None:
    """Until when the pod may run on a node that reaches no API server; None: for ever, the default. For
    programs that must not run twice at the same time."""
    text = (metadata(pod).get("annotations") or {}).get(ALONE_S)
    if text is None or heard_ns is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return None
    return heard_ns + round(max(ALONE_S_MIN, seconds) * SECOND_NS)


def deletion_ns(pod: Obj) -> int | None:
    """When the grace period of a pod that is being deleted is over: the API server writes the end, not the
    start. It cuts off the fraction of a second, so one is added: no pod is killed early."""
    meta = metadata(pod)
    stamp = meta.get("deletionTimestamp")
    if not stamp:
        return None
    return ns_of(stamp) + (SECOND_NS if meta.get("deletionGracePeriodSeconds") != 0 else 0)
