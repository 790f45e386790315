"""All pods of a node: a worker for each that is bound to it, and one for each that is still here although the
API knows it no more."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from fathom.agent.runtime import Kept, Run, Runtime
from fathom.agent.seamed import RETRY_S, RuntimeFailed, again
from fathom.agent.views import TERMINAL
from fathom.agent.worker import Around, Worker
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, uid_of
from fathom.seams.log import Log
from fathom.seams.outside import Clock


class Pods:
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
    ) -> None:
        self._runtime = runtime
        self._log = log
        self._around = Around(runtime, clock, host_ip, self._changed, event, self._removed, rng, heard_ns)
        self._workers: dict[str, Worker] = {}  # By UID.
        self._admitting: dict[str, asyncio.Task[None]] = {}
        self._wanted: dict[str, Obj] = {}  # As the API has them, by UID.
        self.wake: Callable[[Key], None] = lambda key: None  # The reporter's.

    def worker(self, uid: str) -> Worker | None:
        return self._workers.get(uid)

    def reported_addresses(self) -> set[str]:
        """Of all that live, as the API has them."""
        live = (pod for pod in self._wanted.values() if lookup(pod, "status", "phase") not in TERMINAL)
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
        elif uid not in self._admitting and not self._is_history(after):
            task = asyncio.get_running_loop().create_task(self._admit(uid))
            self._admitting[uid] = task

    def look_at_all(self) -> None:
        """A server is heard again: who was stopped because none was may go on."""
        for worker in self._workers.values():
            worker.look()

    def ended(self, run: Run) -> None:
        if run.uid in self._workers:
            self._workers[run.uid].ended(run)

    async def adopt_orphans(self) -> None:
        """Of the pods that the runtime holds, those that the API has no more. Call it when the cache has
        everything."""
        for kept in await again(self._runtime.listing):
            uid = uid_of(kept.pod)
            if uid not in self._wanted and uid not in self._workers:
                self._log.info("an orphan is ended", pod="/".join(key_of(kept.pod)), uid=uid)
                self._workers[uid] = Worker(kept, kept.pod, self._around, orphan=True)

    def cancel(self) -> None:
        for task in self._admitting.values():
            task.cancel()
        for worker in self._workers.values():
            worker.cancel()

    def _is_history(self, pod: Obj) -> bool:
        """It ended before we came, and is not being deleted: nothing is to be done. Its log may still be
        here, so it is admitted if the runtime has it; that is the runtime's to know."""
        return lookup(pod, "status", "phase") in TERMINAL and not (pod["metadata"].get("deletionTimestamp"))

    def _gone(self, uid: str) -> None:
        self._wanted.pop(uid, None)
        if uid in self._workers:
            self._workers[uid].orphaned()
        elif uid not in self._admitting:  # Else it becomes an orphan when it is admitted.
            asyncio.get_running_loop().create_task(self._forget(uid))

    async def _forget(self, uid: str) -> None:
        """Of history only files are left."""
        for kept in await again(self._runtime.listing):
            if uid_of(kept.pod) == uid and uid not in self._workers and uid not in self._wanted:
                self._workers[uid] = Worker(kept, kept.pod, self._around, orphan=True)

    async def _admit(self, uid: str) -> None:
        kept: Kept | None = None
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
            self._workers[uid] = Worker(kept, pod or kept.pod, self._around, orphan=pod is None)

    async def _nothing_of(self, uid: str) -> Kept | None:
        """What the runtime has no room for, and never had, needs none to be deleted."""
        pod = self._wanted.get(uid)
        if pod is None or not is_deleting(pod):
            return None
        held = await again(self._runtime.listing)
        return None if any(uid_of(one.pod) == uid for one in held) else Kept(pod, "")

    def _changed(self, pod: Obj) -> None:
        self.wake(key_of(pod))

    def _removed(self, uid: str) -> None:
        self._workers.pop(uid, None)
