"""Gets a placed pod its volumes before its binding is sent, as kube-scheduler's PreBind does.

    each claim that waits for its consumer:
        a volume that is there  ──> the volume names the claim
        none                    ──> the claim names the node: volume.kubernetes.io/selected-node
    all bound, to volumes of this node ──> the binding is sent
    the claim is gone, its node is taken back, or time is up ──> the pod is retried

Others do the rest: the volume controller of the cluster, and the provisioner of the storage class. The room
on the node stays taken meanwhile. After a restart the claim still names its node, and the pod goes there
again.
"""

from __future__ import annotations

import asyncio

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Committed
from fathom.control.decision_log import result_of, subject_of
from fathom.model.cause import WakeCause
from fathom.model.objects import Key, Obj, key_of, metadata, uid_of
from fathom.schedule.decide.delayed_claims import (
    binding_patch,
    chosen_volume,
    is_bound,
    is_reached,
    selected_node,
    selection_patch,
)
from fathom.schedule.loop.background_requests import BackgroundRequests
from fathom.schedule.loop.pod_moves import SentBinding
from fathom.schedule.loop.state import SchedulerState
from fathom.schedule.loop.watched_kinds import CLAIM, VOLUME

LOOK_S = 0.25
BOUND_WITHIN_S = 600.0  # As kube-scheduler's bindTimeoutSeconds.


class VolumeBinding:
    """Of one leader term."""

    def __init__(self, state: SchedulerState, requests: BackgroundRequests, api: Api) -> None:
        self._state = state
        self._requests = requests
        self._api = api

    def is_needed(self, sent: SentBinding) -> bool:
        return bool(self._state.known.delayed_claims(sent.pod))

    async def get(self, sent: SentBinding) -> str | None:
        """'' when all claims are bound; else why they are not. None: the process ends, and nobody waits any
        more."""
        node = self._state.caches.snapshot().get("Node", Key("", sent.request.node))
        if node is None:
            return f"node {sent.request.node} is gone"
        claims = self._state.known.delayed_claims(sent.pod)
        named: dict[Key, int] = {}
        wrong = await self._ask_for(sent, claims, node, named)
        return wrong or await self._until_bound(sent, claims, node, named)

    async def _ask_for(self, sent: SentBinding, claims: list[Obj], node: Obj, named: dict[Key, int]) -> str:
        """`named` gets the claims that name the node, each with a revision at which it does."""
        taken: set[str] = set()
        for claim in claims:
            if selected_node(claim):
                named[key_of(claim)] = _revision(claim)
                continue  # Asked for before; the filters let the pod go to that node alone.
            volume = chosen_volume(claim, node, self._state.known.volumes, taken)
            if volume is None:
                patch = selection_patch(claim, key_of(node).name)
                wrong, named[key_of(claim)] = await self._patch(sent, CLAIM.resource, claim, patch)
            else:
                taken.add(key_of(volume).name)
                patch = binding_patch(volume, claim)
                wrong, _ = await self._patch(sent, VOLUME.resource, volume, patch)
            if wrong:
                return wrong
        return ""

    async def _patch(self, sent: SentBinding, resource: Resource, obj: Obj, patch: Obj) -> tuple[str, int]:
        """What is wrong, and the new revision. At the revision that was read: two pods may want the same
        volume. It is a decision of its own, so that the outcome of the pod's is that of its binding."""
        key, subject = key_of(obj), subject_of(resource, obj)
        why = f"pod {'/'.join(sent.pod.key)} goes to {sent.request.node}, and needs its volume there"
        id_ = self._state.note("patch", subject, WakeCause("decision", decision=sent.decision), why)
        outcome = await self._api.with_decision(id_).patch(resource, key.namespace, key.name, patch)
        result, revision, message = result_of(outcome)
        now_ns = self._state.clock.now_ns()
        self._state.recorder.concluded(
            id_, now_ns, result, written=subject, revision=revision, message=message
        )
        wrong = "" if isinstance(outcome, Committed) else f"{resource.plural} {key.name}: {message or result}"
        return wrong, revision

    async def _until_bound(
        self, sent: SentBinding, claims: list[Obj], node: Obj, named: dict[Key, int]
    ) -> str | None:
        asked = {key_of(claim): uid_of(claim) for claim in claims}
        until_s = asyncio.get_running_loop().time() + BOUND_WITHIN_S
        while asyncio.get_running_loop().time() < until_s:
            if self._requests.ending:
                return None
            if self._state.pods.state(sent.pod.uid) != "sent":
                return "the pod does not wait any more"
            wrong = [self._wrong(key, uid, node, named) for key, uid in asked.items()]
            if given_up := next(filter(None, wrong), ""):
                return given_up
            if not any(each is None for each in wrong):
                return ""
            await asyncio.sleep(LOOK_S)
        return f"volumes were not bound within {BOUND_WITHIN_S:g} s"

    def _wrong(self, key: Key, uid: str, node: Obj, named: dict[Key, int]) -> str | None:
        """'': the claim is bound. None: not yet."""
        claim = self._state.known.claim(key)
        if claim is None or uid_of(claim) != uid:
            return f"claim {key.name} is gone"
        if is_bound(claim):
            here = is_reached(claim, node, self._state.known.volumes)
            return "" if here else f"the volume of claim {key.name} is not for node {key_of(node).name}"
        # By revision: between two looks, the node may be there and gone again.
        if key in named and not selected_node(claim) and _revision(claim) > named[key]:
            return f"the provisioner of claim {key.name} gave up node {key_of(node).name}"
        return None


def _revision(obj: Obj) -> int:
    return int(metadata(obj).get("resourceVersion") or 0)
