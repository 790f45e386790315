"""All pods of a node: a worker for each pod bound to it, and for each orphan.

An orphan is a pod that is still here although the API has it no more.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Protocol

from fathom.agent.admission import NodeClaim, Rejection, claim_of, plan_admission, was_admitted
from fathom.agent.pod_worker import PodSurroundings, PodWorker
from fathom.agent.runtime import ContainerRun, KeptContainer, Runtime
from fathom.agent.runtime_client import RETRY_S, RuntimeFailed, again
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.seams.log import Log
from fathom.seams.outside import Clock


class NodeSource(Protocol):
    """The agent's own Node object and whether its pods are known."""

    def known(self) -> Obj | None:
        """The Node as last read."""
        ...

    async def fetch(self) -> Obj | None:
        """The Node as it is now. Raises ApiError."""
        ...

    async def synced(self) -> None:
        """Wait until all pods of the node are in the cache."""
        ...


class NodePods:
    def __init__(
        self,
        runtime: Runtime,
        *,
        clock: Clock,
        host_ip: str,
        rng: random.Random,
        event: Callable[[Obj, str, str, str, str], None],
        log: Log,
        heard_ns: Callable[[], int | None] = lambda: None,
        node: NodeSource | None = None,
    ) -> None:
        self._runtime = runtime
        self._node = node  # None: every pod fits.
        self._log = log
        self._around = PodSurroundings(
            runtime, clock, host_ip, self._changed, event, self._removed, rng, heard_ns
        )
        self._workers: dict[str, PodWorker] = {}  # By UID.
        self._admitting: dict[str, asyncio.Task[None]] = {}
        self._wanted: dict[str, Obj] = {}  # Pods in the API, by UID.
        self._admitted: set[str] = set()  # UIDs of pods that fit, since our start.
        self._rejections: dict[str, Rejection] = {}  # Of pods that do not fit, by UID; never revoked.
        self._held: frozenset[str] | None = None  # UIDs of pods that the runtime had at our start.
        self._claims: dict[str, tuple[Obj, NodeClaim]] = {}  # By UID, with the spec they were read from.
        # The revision at which we received a pod first: where we follow the watch, that of its binding.
        self._received: dict[str, int] = {}
        self.wake: Callable[[Obj], None] = lambda pod: None  # The reporter's.

    def worker(self, uid: str) -> PodWorker | None:
        return self._workers.get(uid)

    @property
    def workers(self) -> tuple[PodWorker, ...]:
        return tuple(self._workers.values())

    @property
    def rejected(self) -> int:
        return len(self._rejections)

    def received_at(self, uid: str) -> int:
        """The revision at which the agent received the pod first; 0: not known."""
        return self._received.get(uid, 0)

    def rejection(self, uid: str) -> Rejection | None:
        return self._rejections.get(uid)

    def reported_addresses(self) -> set[str]:
        """Addresses of all pods that have not ended, as the API has them."""
        live = (pod for pod in self._wanted.values() if not is_terminal(pod))
        return {str(lookup(pod, "status", "podIP") or "") for pod in live}

    def observe(self, before: Obj | None, after: Obj | None) -> None:
        """Handle a change in the cache."""
        if before is not None and (after is None or uid_of(after) != uid_of(before)):
            self._gone(uid_of(before))
        if after is None:
            return
        uid = uid_of(after)
        if uid not in self._wanted:
            self._received[uid] = int(metadata(after).get("resourceVersion") or 0)
        self._wanted[uid] = after
        if uid in self._workers:
            self._workers[uid].update(after)
        elif uid in self._rejections and not is_deleting(after):
            self.wake(after)  # It stays rejected, whatever has become free since.
        elif uid not in self._admitting and not self._is_history(after):
            task = asyncio.get_running_loop().create_task(self._admit(uid))
            self._admitting[uid] = task

    def look_at_all(self) -> None:
        """The API server answers again: pods that were stopped because it did not may go on."""
        for worker in self._workers.values():
            worker.look()

    def ended(self, run: ContainerRun) -> None:
        if run.uid in self._workers:
            self._workers[run.uid].ended(run)

    async def adopt_orphans(self) -> None:
        """Take over pods that the runtime holds and the API has no more. Call it when the cache is synced."""
        for kept in await again(self._runtime.listing):
            uid = uid_of(kept.pod)
            if uid not in self._wanted and uid not in self._workers:
                self._log.info("killing an orphaned pod", pod="/".join(key_of(kept.pod)), uid=uid)
                self._workers[uid] = PodWorker(kept, kept.pod, self._around, orphan=True)

    def cancel(self) -> None:
        for task in self._admitting.values():
            task.cancel()
        for worker in self._workers.values():
            worker.cancel()

    def _is_history(self, pod: Obj) -> bool:
        """Whether the pod had ended before we saw it and is not being deleted: nothing is to be done. The
        runtime may still keep its log."""
        return is_terminal(pod) and not (pod["metadata"].get("deletionTimestamp"))

    def _gone(self, uid: str) -> None:
        self._wanted.pop(uid, None)
        self._received.pop(uid, None)
        self._claims.pop(uid, None)
        self._rejections.pop(uid, None)
        self._admitted.discard(uid)
        if uid in self._workers:
            self._workers[uid].orphaned()
        elif uid not in self._admitting:  # Else it becomes an orphan when it is admitted.
            asyncio.get_running_loop().create_task(self._forget(uid))

    async def _forget(self, uid: str) -> None:
        """Remove the files of a pod that has ended."""
        for kept in await again(self._runtime.listing):
            if uid_of(kept.pod) == uid and uid not in self._workers and uid not in self._wanted:
                self._workers[uid] = PodWorker(kept, kept.pod, self._around, orphan=True)

    # Admission.

    async def _admit(self, uid: str) -> None:
        if await self._is_rejected(uid):
            self._admitting.pop(uid, None)
            return
        kept: KeptContainer | None = None
        while kept is None and (wanted := self._wanted.get(uid)) is not None:
            try:
                kept = await self._runtime.admit(wanted)
            except RuntimeFailed as error:
                self._around.event(wanted, "", "Warning", "FailedCreatePodSandBox", str(error))
                await asyncio.sleep(RETRY_S)
                kept = await self._empty_pod(uid)
        self._admitting.pop(uid, None)
        if kept is not None:
            pod = self._wanted.get(uid)
            self._workers[uid] = PodWorker(kept, pod or kept.pod, self._around, orphan=pod is None)

    async def _is_rejected(self, uid: str) -> bool:
        """Decided once: pods that an earlier agent admitted, and pods being deleted, are not checked."""
        if self._node is None or uid in await self._held_before():
            return False
        await self._node.synced()  # All pods here count, whether or not they have a worker yet.
        node = self._node.known()
        while (pod := self._wanted.get(uid)) is not None and not was_admitted(pod) and not is_deleting(pod):
            rejection = plan_admission(pod, node, self._admitted_claims(uid)) if node is not None else None
            if node is not None and rejection is None:
                self._admitted.add(uid)
                return False
            # Labels and allocatable resources may have changed since the node was last read.
            fresh = await self._fetched_node()
            pod = self._wanted.get(uid)
            if fresh is None or pod is None or was_admitted(pod) or is_deleting(pod):
                continue
            node = fresh
            if (rejection := plan_admission(pod, node, self._admitted_claims(uid))) is not None:
                self._reject(pod, rejection)
                return True
        return False

    async def _fetched_node(self) -> Obj | None:
        """None: the API server does not answer just now."""
        assert self._node is not None
        try:
            return await self._node.fetch()
        except ApiError:
            await asyncio.sleep(RETRY_S)
            return None

    def _reject(self, pod: Obj, rejection: Rejection) -> None:
        self._rejections[uid_of(pod)] = rejection
        self._log.info("pod rejected", pod="/".join(key_of(pod)), reason=rejection.reason)
        self._around.event(pod, "", "Warning", rejection.reason, rejection.message)
        self.wake(pod)

    def _admitted_claims(self, uid: str) -> Iterator[NodeClaim]:
        """Claims of the other admitted pods that are not over: a pod being stopped keeps its claim until
        then."""
        for other_uid, pod in self._wanted.items():
            worker = self._workers.get(other_uid)
            ours = other_uid in self._admitted or other_uid in (self._held or ()) or was_admitted(pod)
            if other_uid == uid or not ours or is_terminal(pod):
                continue
            if worker is None or not worker.over:
                yield self._claim(other_uid, pod)

    def _claim(self, uid: str, pod: Obj) -> NodeClaim:
        cached = self._claims.get(uid)
        if cached is None or cached[0] is not pod.get("spec"):
            cached = self._claims[uid] = (pod.get("spec") or {}, claim_of(pod))
        return cached[1]

    async def _held_before(self) -> frozenset[str]:
        """Pods the runtime had at our start: a killed agent may have started a pod without reporting it."""
        if self._held is None:
            listed = frozenset(uid_of(kept.pod) for kept in await again(self._runtime.listing))
            self._held = listed if self._held is None else self._held
        return self._held

    async def _empty_pod(self, uid: str) -> KeptContainer | None:
        """A pod being deleted that the runtime never admitted needs no admission: it is simply empty."""
        pod = self._wanted.get(uid)
        if pod is None or not is_deleting(pod):
            return None
        kept_pods = await again(self._runtime.listing)
        return None if any(uid_of(kept.pod) == uid for kept in kept_pods) else KeptContainer(pod, "")

    def _changed(self, pod: Obj) -> None:
        self.wake(self._wanted.get(uid_of(pod), pod))

    def _removed(self, uid: str) -> None:
        self._workers.pop(uid, None)
