"""All pods of a node: a worker for each that is bound to it, and one for each that is still here although the
API knows it no more."""

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
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.seams.log import Log
from fathom.seams.outside import Clock


class NodeSource(Protocol):
    """What the agent knows of its own node."""

    def known(self) -> Obj | None:
        """As it was last read."""
        ...

    async def fetch(self) -> Obj | None:
        """As it is now. Raises ApiError."""
        ...

    async def synced(self) -> None:
        """Until all pods of the node are known."""
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
        self._wanted: dict[str, Obj] = {}  # As the API has them, by UID.
        self._admitted: set[str] = set()  # UIDs of those that were found to fit, while we live.
        self._rejections: dict[str, Rejection] = {}  # Of those that were not, by UID; never taken back.
        self._held: frozenset[str] | None = None  # UIDs of what the runtime had when we came.
        self._claims: dict[str, tuple[Obj, NodeClaim]] = {}  # By UID, with the spec that they were read from.
        self.wake: Callable[[Key], None] = lambda key: None  # The reporter's.

    def worker(self, uid: str) -> PodWorker | None:
        return self._workers.get(uid)

    @property
    def workers(self) -> tuple[PodWorker, ...]:
        return tuple(self._workers.values())

    @property
    def rejected(self) -> int:
        return len(self._rejections)

    def rejection(self, uid: str) -> Rejection | None:
        return self._rejections.get(uid)

    def reported_addresses(self) -> set[str]:
        """Of all that live, as the API has them."""
        live = (pod for pod in self._wanted.values() if not is_terminal(pod))
        return {str(lookup(pod, "status", "podIP") or "") for pod in live}

    def observe(self, before: Obj | None, after: Obj | None) -> None:
        """A change in the cache."""
        if before is not None and (after is None or uid_of(after) != uid_of(before)):
            self._gone(uid_of(before))
        if after is None:
            return
        uid = uid_of(after)
        self._wanted[uid] = after
        if uid in self._workers:
            self._workers[uid].update(after)
        elif uid in self._rejections and not is_deleting(after):
            self.wake(key_of(after))  # It stays rejected, whatever has become free since.
        elif uid not in self._admitting and not self._is_history(after):
            task = asyncio.get_running_loop().create_task(self._admit(uid))
            self._admitting[uid] = task

    def look_at_all(self) -> None:
        """A server is heard again: who was stopped because none was may go on."""
        for worker in self._workers.values():
            worker.look()

    def ended(self, run: ContainerRun) -> None:
        if run.uid in self._workers:
            self._workers[run.uid].ended(run)

    async def adopt_orphans(self) -> None:
        """Of the pods that the runtime holds, those that the API has no more. Call it when the cache has
        everything."""
        for kept in await again(self._runtime.listing):
            uid = uid_of(kept.pod)
            if uid not in self._wanted and uid not in self._workers:
                self._log.info("an orphan is ended", pod="/".join(key_of(kept.pod)), uid=uid)
                self._workers[uid] = PodWorker(kept, kept.pod, self._around, orphan=True)

    def cancel(self) -> None:
        for task in self._admitting.values():
            task.cancel()
        for worker in self._workers.values():
            worker.cancel()

    def _is_history(self, pod: Obj) -> bool:
        """It ended before we came, and is not being deleted: nothing is to be done. Its log may still be
        here, so it is admitted if the runtime has it; that is the runtime's to know."""
        return is_terminal(pod) and not (pod["metadata"].get("deletionTimestamp"))

    def _gone(self, uid: str) -> None:
        self._wanted.pop(uid, None)
        self._claims.pop(uid, None)
        self._rejections.pop(uid, None)
        self._admitted.discard(uid)
        if uid in self._workers:
            self._workers[uid].orphaned()
        elif uid not in self._admitting:  # Else it becomes an orphan when it is admitted.
            asyncio.get_running_loop().create_task(self._forget(uid))

    async def _forget(self, uid: str) -> None:
        """Of history only files are left."""
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
                kept = await self._nothing_of(uid)
        self._admitting.pop(uid, None)
        if kept is not None:
            pod = self._wanted.get(uid)
            self._workers[uid] = PodWorker(kept, pod or kept.pod, self._around, orphan=pod is None)

    async def _is_rejected(self, uid: str) -> bool:
        """Decided once: what an agent took before us, and what is to be ended, is not asked about."""
        if self._node is None or uid in await self._held_before():
            return False
        await self._node.synced()  # What runs here counts, whether or not its worker has begun.
        node = self._node.known()
        while (pod := self._wanted.get(uid)) is not None and not was_admitted(pod) and not is_deleting(pod):
            found = plan_admission(pod, node, self._taken(uid)) if node is not None else None
            if node is not None and found is None:
                self._admitted.add(uid)
                return False
            # Labels and what there is of a resource may have changed since the node was last read.
            fresh = await self._fetched_node()
            pod = self._wanted.get(uid)
            if fresh is None or pod is None or was_admitted(pod) or is_deleting(pod):
                continue
            node = fresh
            if (found := plan_admission(pod, node, self._taken(uid))) is not None:
                self._reject(pod, found)
                return True
        return False

    async def _fetched_node(self) -> Obj | None:
        """None: the server does not answer just now."""
        assert self._node is not None
        try:
            return await self._node.fetch()
        except ApiError:
            await asyncio.sleep(RETRY_S)
            return None

    def _reject(self, pod: Obj, rejection: Rejection) -> None:
        self._rejections[uid_of(pod)] = rejection
        self._log.info("a pod is rejected", pod="/".join(key_of(pod)), reason=rejection.reason)
        self._around.event(pod, "", "Warning", rejection.reason, rejection.message)
        self.wake(key_of(pod))

    def _taken(self, uid: str) -> Iterator[NodeClaim]:
        """By the others that were admitted and are not over: whoever is being ended needs his room until he
        is."""
        for other, pod in self._wanted.items():
            worker = self._workers.get(other)
            ours = other in self._admitted or other in (self._held or ()) or was_admitted(pod)
            if other == uid or not ours or is_terminal(pod):
                continue
            if worker is None or not worker.over:
                yield self._claim(other, pod)

    def _claim(self, uid: str, pod: Obj) -> NodeClaim:
        kept = self._claims.get(uid)
        if kept is None or kept[0] is not pod.get("spec"):
            kept = self._claims[uid] = (pod.get("spec") or {}, claim_of(pod))
        return kept[1]

    async def _held_before(self) -> frozenset[str]:
        """An agent that was killed may have started a pod without having said so."""
        if self._held is None:
            listed = frozenset(uid_of(kept.pod) for kept in await again(self._runtime.listing))
            self._held = listed if self._held is None else self._held
        return self._held

    async def _nothing_of(self, uid: str) -> KeptContainer | None:
        """What the runtime has no room for, and never had, needs none to be deleted."""
        pod = self._wanted.get(uid)
        if pod is None or not is_deleting(pod):
            return None
        held = await again(self._runtime.listing)
        return None if any(uid_of(one.pod) == uid for one in held) else KeptContainer(pod, "")

    def _changed(self, pod: Obj) -> None:
        self.wake(key_of(pod))

    def _removed(self, uid: str) -> None:
        self._workers.pop(uid, None)
