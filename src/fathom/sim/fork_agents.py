"""Simulated agents that go on with what runs: settings from the Nodes, behaviour from the pods' statuses.

A pod that runs goes on running with its age; one that crashes, cannot start or is not ready goes on doing
that, and so do later pods of the same owner. How long containers of a Job run is taken from those that have
ended. What cannot be seen in a status (a program that would crash in an hour) does not happen in a fork.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_network
from typing import Any

import msgspec

from fathom.agent.settings import Script
from fathom.model.conditions import is_true
from fathom.model.objects import Obj, is_deleting, lookup, metadata, uid_of
from fathom.model.times import SECOND_NS, moment_ns

IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName"})
START_REASONS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError"}
)
CRASHING = "CrashLoopBackOff"
# An agent renews its lease every ten seconds: one that has missed two renewals is silent.
SILENT_S = 25.0
# A container that runs this long and is not ready will not become ready by waiting.
NOT_READY_AFTER_S = 60.0
# As live agents with simulated containers: bookmarks would be most of what a quiet fork does.
BOOKMARK_S = 15.0


def agent_options(node: Obj, scripts: Mapping[str, Script]) -> dict[str, Any]:
    """`AgentSettings` for the agent of an existing Node: nothing that the Node says changes."""
    addresses = lookup(node, "status", "addresses") or ()
    internal = [address["address"] for address in addresses if address.get("type") == "InternalIP"]
    return {
        "node": str(metadata(node)["name"]),
        "driver": "simulated",
        "takes_over": True,
        "bookmark_s": BOOKMARK_S,
        "pod_range": _range_of(node),
        "address": str(internal[0]) if internal else "",
        "capacity": dict(lookup(node, "status", "capacity") or {}),
        "labels": dict(metadata(node).get("labels") or {}),
        "scripts": {uid: msgspec.to_builtins(script) for uid, script in scripts.items()},
    }


def _range_of(node: Obj) -> str:
    """'127.X.Y' of the pods' addresses; '' where the Node names none that an agent could use."""
    try:
        network = ip_network(str(lookup(node, "spec", "podCIDR") or ""))
    except ValueError:
        return ""
    return str(network.network_address).rpartition(".")[0] if network.prefixlen == 24 else ""


def is_alive(node: Obj, lease: Obj | None, *, now_ns: int) -> bool:
    """Whether the node's agent was alive: one that was silent stays silent in the fork."""
    renewed_ns = moment_ns(lookup(lease or {}, "spec", "renewTime"))
    silent_ns = 0 if renewed_ns is None else now_ns - renewed_ns
    return is_true(node, "Ready") and silent_ns <= SILENT_S * SECOND_NS


def scripts_of(pods: Sequence[Obj], *, now_ns: int) -> dict[str, Script]:
    """How containers behave, by the UID of their pod or of its owner."""
    scripts = {}
    by_owner: dict[str, list[Obj]] = defaultdict(list)
    for pod in pods:
        script = observed_script(pod, now_ns=now_ns)
        if script is not None:
            scripts[uid_of(pod)] = script
        for owner in metadata(pod).get("ownerReferences") or ():
            by_owner[str(owner.get("uid"))].append(pod)
    for owner_uid, owned in by_owner.items():
        script = _owner_script(owned, now_ns=now_ns)
        if script is not None:
            scripts[owner_uid] = script
    return scripts


def observed_script(pod: Obj, *, now_ns: int) -> Script | None:
    """How the pod's containers fail now; None: they do not."""
    if is_deleting(pod) or not lookup(pod, "spec", "nodeName"):
        return None
    for status in _container_statuses(pod):
        reason = str(lookup(status, "state", "waiting", "reason") or "")
        if reason in IMAGE_REASONS:
            return Script(fail="image")
        if reason in START_REASONS:
            return Script(fail="start")
        if reason == CRASHING:
            return _crash_script(status)
        if _is_stuck(status, now_ns=now_ns):
            return Script(fail="readiness")
    return None


def _crash_script(status: Obj) -> Script:
    ended = lookup(status, "lastState", "terminated") or {}
    ran_s = _seconds_between(ended.get("startedAt"), ended.get("finishedAt"))
    code = int(ended.get("exitCode") or 1)
    return Script(fail="crash", crash_s=max(1.0, ran_s or 1.0), exit_code=code)


def _is_stuck(status: Obj, *, now_ns: int) -> bool:
    started = lookup(status, "state", "running", "startedAt")
    if not isinstance(started, str) or status.get("ready"):
        return False
    return now_ns - (moment_ns(started) or now_ns) > NOT_READY_AFTER_S * SECOND_NS


def _owner_script(pods: Sequence[Obj], *, now_ns: int) -> Script | None:
    """What all pods of an owner do that have got so far: fail alike, or end after some time."""
    observed = [observed_script(pod, now_ns=now_ns) for pod in pods if _container_statuses(pod)]
    if observed and observed[0] is not None and all(script == observed[0] for script in observed):
        return observed[0]
    durations = [seconds for pod in pods for seconds in _durations_s(pod)]
    return Script(runs_s=sum(durations) / len(durations)) if durations else None


def _durations_s(pod: Obj) -> Iterable[float]:
    """How long the containers of a pod that has succeeded ran."""
    if lookup(pod, "status", "phase") != "Succeeded":
        return
    for status in lookup(pod, "status", "containerStatuses") or ():
        ended = lookup(status, "state", "terminated") or {}
        seconds = _seconds_between(ended.get("startedAt"), ended.get("finishedAt"))
        if seconds is not None:
            yield seconds


def _container_statuses(pod: Obj) -> list[Obj]:
    fields = ("initContainerStatuses", "containerStatuses")
    return [status for field in fields for status in lookup(pod, "status", field) or ()]


def _seconds_between(start: object, end: object) -> float | None:
    if not isinstance(start, str) or not isinstance(end, str):
        return None
    start_ns, end_ns = moment_ns(start), moment_ns(end)
    return None if start_ns is None or end_ns is None else max(0, end_ns - start_ns) / SECOND_NS
