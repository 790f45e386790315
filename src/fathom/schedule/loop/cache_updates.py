"""Applies cache changes to the scheduler's state, and notes the events that may help waiting pods.

Changes come one at a time, in revision order within a kind, in any order between two kinds. Nothing here
waits or sends, so the next decision uses every change that the caches have delivered.
"""

from __future__ import annotations

from functools import partial

import msgspec

from fathom.kinds.scheduler_override import USED_OVERRIDES
from fathom.model.cause import DELETED, WakeCause
from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.model.tenancy import charged_to
from fathom.schedule.decide import rules
from fathom.schedule.decide.pods import PodView
from fathom.schedule.loop.attached_overrides import AttachedOverrides
from fathom.schedule.loop.attempts import Attempts
from fathom.schedule.loop.cluster_events import about_pod
from fathom.schedule.loop.reservations import holder_of
from fathom.schedule.loop.state import SchedulerState


class CacheUpdates:
    def __init__(
        self, state: SchedulerState, attempts: Attempts, overrides: AttachedOverrides | None = None
    ) -> None:
        """`overrides`: who says what of them is honoured; None: all of it, as the server checks it."""
        self._state = state
        self._overrides = overrides
        self._attempts = attempts
        for kind in state.caches.kinds:
            state.caches.on_change(kind, partial(self._changed, kind))

    def _changed(self, kind: str, before: Obj | None, after: Obj | None) -> None:
        if kind == "Pod":
            self._pod_changed(before, after)
            return
        if kind == "Reservation":
            self.reservation_changed(before, after)
            return
        if kind == "SchedulerOverride" and self._overrides is not None:
            self._overrides.changed(before, after)
            return
        for name in self._state.known.put(kind, before, after):
            ends = after is None or (is_deleting(after) and not is_deleting(before or {}))
            self._state.cluster_events.record(name, kind, after or before or {}, gone=ends)
        if kind == "SchedulerOverride":
            self._state.set_priorities()
        if kind == "Namespace" and self._state.known.tenant_changed(before, after):
            self._look_again(key_of(after or before or {}).name)
        self._state.cluster_events.moved.set()

    def reservation_changed(self, before: Obj | None, after: Obj | None) -> None:
        """The pod that the reservation is for may be waiting: its own reservation does not block it."""
        obj = after or before or {}
        for name in self._state.known.put("Reservation", before, after):
            self._state.cluster_events.record_freed_node(str(lookup(obj, "spec", "nodeName")))
            self._state.cluster_events.record(name, "Reservation", obj, gone=after is None)
        view = self._state.waiting.get(holder_of(obj))
        if view is not None:
            self._state.known.nominate(view)
        self._state.cluster_events.moved.set()

    def _look_again(self, namespace: str) -> None:
        """The namespace's pods belong to another tenant now. Also needed when the namespace arrives after its
        pods."""
        snapshot = self._state.caches.snapshot()
        for pod in snapshot.list("Pod", namespace) if snapshot.synced("Pod") else ():
            self._pod_changed(pod, pod)

    def _pod_changed(self, before: Obj | None, after: Obj | None) -> None:
        if after is None:
            self._pod_gone(before or {})
            return
        view = self._confirmed(before, after) or self._state.known.view(after)
        if view.node or view.finished:
            self._pod_placed(before, view)
        elif view.deleting or not self._state.rules.is_ours(after, view.tenant):
            self._state.leave(view.uid)
        elif view.uid not in self._state.landed:
            cause = WakeCause("event", "", "pods", *view.key, view.revision)
            raised = self._state.raised_priority(view)
            self._state.pods.heard(view, cause, now_ns=self._state.clock.monotonic_ns(), raised=raised)
            self._state.known.nominate(view)
            if view.shape.gates:
                self._attempts.record_gates(view)
        self._state.cluster_events.moved.set()

    def _confirmed(self, before: Obj | None, after: Obj) -> PodView | None:
        """The view of a pod that is bound where we sent it and is otherwise unchanged. Under load, half of
        all cache changes are of this kind, and the pod need not be parsed again."""
        sent = self._state.sent.get(uid_of(after))
        if sent is None or before is None or not is_only_bound(before, after, sent.request.node):
            return None
        return msgspec.structs.replace(
            sent.pod,
            node=sent.request.node,
            revision=int(metadata(after).get("resourceVersion") or 0),
            charged=charged_to(after),
        )

    def _pod_gone(self, last: Obj) -> None:
        uid = uid_of(last)
        self._state.gone(uid)
        self._state.known.gone(uid)
        node = lookup(last, "spec", "nodeName") or self._state.known.table.assumed(uid)
        self._state.known.table.forget(uid)
        if self._state.known.table.remove_pod(uid) or node:
            self._state.cluster_events.record_freed_node(str(node))
            self._state.cluster_events.record(
                rules.POD_GONE, "Pod", last, f"{DELETED} from {node}", gone=True
            )
        self._state.cluster_events.moved.set()

    def _pod_placed(self, before: Obj | None, view: PodView) -> None:
        """The pod is bound or finished; any scheduler may have bound it."""
        self._state.seen(view.uid)
        was_free = before is None or not lookup(before, "spec", "nodeName")
        assumed = self._state.known.table.assumed(view.uid)
        old = self._state.known.table.placed.get(view.uid)
        old_requests = old.view.shape.requests if old is not None else ()
        counted = self._state.known.table.put_pod(view)
        if assumed and assumed != view.node:
            self._state.cluster_events.record_freed_room(assumed, f"is on {view.node} instead", view)
        detail = f"on {view.node}"
        if view.finished:
            if counted:
                self._state.cluster_events.record_freed_room(view.node, detail, view)
        elif was_free:
            self._state.cluster_events.add(about_pod(rules.POD_PLACED, detail, view))
        elif counted:
            self._state.cluster_events.add(about_pod(rules.NEIGHBOUR_CHANGED, detail, view))
            if old_requests != view.shape.requests:  # Resized: it may have freed some room.
                self._state.cluster_events.record_freed_room(view.node, detail, view)


def is_only_bound(before: Obj, after: Obj, node: str) -> bool:
    """Whether a pod was bound to this node and nothing else that rules read has changed. False for a pod that
    uses an override: those are counted, so the pod is parsed in full."""
    spec, old_spec = after.get("spec") or {}, before.get("spec") or {}
    meta, old_meta = metadata(after), metadata(before)
    if spec.get("nodeName") != node or "nodeName" in old_spec or meta.get("labels") != old_meta.get("labels"):
        return False
    if "deletionTimestamp" in meta or USED_OVERRIDES in (meta.get("annotations") or {}):
        return False
    if is_terminal(after):
        return False
    return len(spec) == len(old_spec) + 1 and all(
        old_spec.get(name) == spec[name] for name in spec if name != "nodeName"
    )
