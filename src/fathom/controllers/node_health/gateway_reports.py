"""What the gateway reports about a node: whether it reaches pods there.

The gateway writes the pods' condition `fathom.dev/Serving`, and while their node is in doubt it updates the
time of each probe: `lastProbeTime`.

A probe counts from when we saw it, on our own clock. A success counts for a moment. A failure counts until a
probe succeeds, or the node is heard: once its pods are out of service nothing connects to them any more.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.controllers.node_health.evidence import NodeReport
from fathom.model.conditions import SERVING_CONDITION, conditions_of, find_condition
from fathom.model.objects import Obj, uid_of
from fathom.model.times import SECOND_NS

VALID_S = 30.0  # Gateways probe pods of a node in doubt every five seconds.


class _Probe(msgspec.Struct, frozen=True):
    stamp: str  # Of the probe, as the gateway wrote it.
    heard_ns: int | None  # None: it is from before we began to watch, and does not count.
    reached: bool


class GatewayReports:
    def __init__(self) -> None:
        self._probes: dict[str, dict[str, _Probe]] = {}  # Node -> pod's UID -> its last probe.

    def listen(self, node: str, pods: Sequence[Obj], now_ns: int) -> None:
        before, probes = self._probes.get(node), {}
        for pod in pods:
            condition = find_condition(conditions_of(pod), SERVING_CONDITION) or {}
            stamp, uid = str(condition.get("lastProbeTime") or ""), uid_of(pod)
            probe = (before or {}).get(uid)
            if probe is not None and probe.stamp == stamp:
                probes[uid] = probe
            elif stamp:
                heard_ns = None if before is None else now_ns
                probes[uid] = _Probe(stamp, heard_ns, condition.get("status") == "True")
        self._probes[node] = probes

    def forget(self, node: str) -> None:
        self._probes.pop(node, None)

    def report(self, node: str, now_ns: int) -> NodeReport | None:
        probes = [probe for probe in self._probes.get(node, {}).values() if probe.heard_ns is not None]
        since_ns = now_ns - round(VALID_S * SECOND_NS)
        if any(
            probe.reached and probe.heard_ns is not None and probe.heard_ns >= since_ns for probe in probes
        ):
            return NodeReport("gateway", "alive", "the gateway reaches pods there")
        if probes and not any(probe.reached for probe in probes):
            return NodeReport("gateway", "gone", "the gateway does not reach any pod there")
        return None
