"""A controller that does everything deciding code may do, all at once, to make a replay go wrong.

Several workers keep sets of pods at their size, with locks, a semaphore, events, a condition, a bounded
queue, task groups, timeouts, hedged requests, cancellation from outside, and sets of tasks; from caches that
list, watch, fall behind and list again. Random names, timestamps in bodies, decisions in a journal: whatever
differs between two runs shows in what it asks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from fathom.model.decision import Decision, Outcome, SeenVersions, Subject
from fathom.seams.process import Inside
from fathom.seams.seam import Ask, Reply, Stream

Obj = dict[str, Any]

TIMEOUT_S = 0.2
BATCH_MAX = 6


class Refused(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class Client:
    def __init__(self, inside: Inside) -> None:
        self._seam = inside.seam

    async def call(self, method: str, target: str, obj: Obj | None = None) -> Obj:
        body = msgspec.json.encode(obj) if obj is not None else b""
        reply = await self._seam.request(Ask(method, target, body), timeout_s=TIMEOUT_S)
        if reply.status not in {200, 201}:
            raise Refused(reply.status)
        answer: Obj = msgspec.json.decode(reply.body)
        return answer

    async def open(self, target: str) -> Stream:
        opened = await self._seam.open(Ask("GET", target), timeout_s=TIMEOUT_S)
        if isinstance(opened, Reply):
            raise Refused(opened.status)
        return opened


class Cache:
    """One kind, kept by list and watch."""

    def __init__(
        self, inside: Inside, client: Client, kind: str, changed: Callable[[Obj, bool], None]
    ) -> None:
        self._rng = inside.streams.stream(f"cache/{kind}")
        self._client = client
        self._kind = kind
        self._changed = changed
        self.objects: dict[str, Obj] = {}
        self.revision = 0
        self.lists = 0
        self.synced = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                if not self.revision:
                    await self._list()
                await self._watch()
            except Refused as error:
                if error.status == 410:
                    self.revision = 0
                await asyncio.sleep(0.05 * (0.5 + self._rng.random()))

    async def _list(self) -> None:
        answer = await self._client.call("GET", f"/api/{self._kind}")
        gone = self.objects.keys() - {obj["name"] for obj in answer["items"]}
        for name in sorted(gone):
            self._apply("DELETED", self.objects[name])
        for obj in answer["items"]:
            self._apply("MODIFIED", obj)
        self.revision = answer["revision"]
        self.lists += 1
        self.synced.set()

    async def _watch(self) -> None:
        stream = await self._client.open(f"/api/{self._kind}?watch=1&after={self.revision}")
        try:
            while (chunks := await stream.read()) is not None:
                for line in b"".join(chunks).splitlines():
                    change, obj = msgspec.json.decode(line)
                    self.revision = max(self.revision, obj["revision"])
                    self._apply(change, obj)
        finally:
            stream.close()

    def _apply(self, change: str, obj: Obj) -> None:
        if change == "DELETED":
            self.objects.pop(obj["name"], None)
        else:
            self.objects[obj["name"]] = obj
        self._changed(obj, change == "DELETED")


class Keys:
    """A work queue: each key once in line, once in hand; some come back later."""

    def __init__(self) -> None:
        self._line: deque[str] = deque()
        self._dirty: dict[str, None] = {}
        self._held: dict[str, None] = {}
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._arrived = asyncio.Condition()
        self._telling: dict[asyncio.Task[None], None] = {}

    def add(self, key: str) -> None:
        if key in self._dirty:
            return
        self._dirty[key] = None
        if key not in self._held:
            self._push(key)

    def _push(self, key: str) -> None:
        self._line.append(key)
        task = asyncio.get_running_loop().create_task(self._tell())
        self._telling[task] = None
        task.add_done_callback(self._telling.pop)

    async def _tell(self) -> None:
        async with self._arrived:
            self._arrived.notify()

    def add_after(self, key: str, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        timer = self._later.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        self._later[key] = loop.call_later(delay_s, self._due, key)

    def _due(self, key: str) -> None:
        del self._later[key]
        self.add(key)

    async def take(self) -> str:
        async with self._arrived:
            await self._arrived.wait_for(lambda: self._line)
        key = self._line.popleft()
        del self._dirty[key]
        self._held[key] = None
        return key

    def done(self, key: str) -> None:
        del self._held[key]
        if key in self._dirty:
            self._push(key)


class Adversary:
    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._clock, self._ids = inside.outside.clock, inside.outside.ids
        self._rng = inside.outside.rng
        self._client = client = Client(inside)
        self._keys = Keys()
        self._owned: dict[str, dict[str, Obj]] = {}
        self._expected: dict[str, dict[str, None]] = {}  # Set -> pods whose change we wait to see.
        self._sets = Cache(inside, client, "sets", lambda obj, gone: self._keys.add(obj["name"]))
        self._pods = Cache(inside, client, "pods", self._pod_changed)
        self._locks = [asyncio.Lock() for _ in range(3)]
        self._few = asyncio.Semaphore(5)
        self._leading = asyncio.Event()
        self._leading.set()
        self._notes: asyncio.Queue[Obj] = asyncio.Queue(50)
        self._idle = asyncio.Condition()
        self._busy = 0
        self._current: dict[int, asyncio.Task[None]] = {}
        self._attempts: dict[str, int] = {}
        self._decisions = 0

    def _pod_changed(self, pod: Obj, gone: bool) -> None:
        mine = self._owned.setdefault(pod["owner"], {})
        if gone:
            mine.pop(pod["name"], None)
        else:
            mine[pod["name"]] = pod
        self._expected.setdefault(pod["owner"], {}).pop(pod["name"], None)
        self._keys.add(pod["owner"])

    async def run(self) -> None:
        main = asyncio.create_task(self._work())
        word = await self._inside.seam.signal()
        main.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await main
        self._inside.estate = f"{word} after {self._decisions} decisions".encode()
        self._inside.identity = f"adversary-{self._inside.incarnation}"

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sets.run())
            group.create_task(self._pods.run())
            await self._sets.synced.wait()
            await self._pods.synced.wait()
            for number in range(self._inside.options["workers"]):
                group.create_task(self._worker(number))
            for other in (self._report, self._kill, self._lead, self._count_idle):
                group.create_task(other())

    async def _worker(self, number: int) -> None:
        while True:
            key = await self._keys.take()
            await self._leading.wait()
            task = self._current[number] = asyncio.create_task(self._reconcile(key))
            try:
                await task
                self._attempts.pop(key, None)
            except (Refused, TimeoutError, ExceptionGroup):
                self._again(key)
            except asyncio.CancelledError:
                current = asyncio.current_task()
                if current is None or current.cancelling():
                    raise
                self._expected.pop(key, None)
                self._again(key)
            finally:
                del self._current[number]
                self._keys.done(key)

    def _again(self, key: str) -> None:
        attempts = self._attempts[key] = self._attempts.get(key, 0) + 1
        self._keys.add_after(key, min(0.005 * 2**attempts, 1) * (1 + self._rng.random()))

    async def _reconcile(self, key: str) -> None:
        async with self._locks[int(key[4:]) % 3]:
            self._busy += 1
            try:
                await self._decide(key)
            finally:
                self._busy -= 1
                if not self._busy:
                    async with self._idle:
                        self._idle.notify_all()
        self._keys.add_after(key, 0.5 + self._rng.random())

    async def _decide(self, key: str) -> None:
        wanted = self._sets.objects.get(key)
        if wanted is None:
            return
        mine = self._owned.get(key, {})
        missing = wanted["replicas"] - len(mine)
        if not self._expected.get(key) and missing > 0:
            await self._grow(wanted, min(missing, BATCH_MAX))
        elif not self._expected.get(key) and missing < 0:
            await self._shrink(wanted, sorted(mine)[:-missing][:BATCH_MAX])
        ready = sum(pod["ready"] for pod in self._owned.get(key, {}).values())
        if wanted["ready"] != ready:
            await self._tell_ready(wanted, ready)

    def _decided(self, wanted: Obj, verdict: str, names: list[str]) -> str:
        self._decisions += 1
        decision = Decision(
            id=self._ids.uid(),
            time_ns=self._clock.now_ns(),
            controller="adversary",
            subject=Subject("sets", "", wanted["name"], generation=wanted["revision"]),
            verdict=verdict,
            attempt=self._attempts.get(wanted["name"], 0) + 1,
            seen={"sets": SeenVersions(self._sets.revision), "pods": SeenVersions(self._pods.revision)},
            actions=tuple(names),
        )
        self._inside.journal.decided(decision)
        return decision.id

    async def _grow(self, wanted: Obj, count: int) -> None:
        names = [f"{wanted['name']}-{self._rng.getrandbits(32):08x}" for _ in range(count)]
        decision = self._decided(wanted, "create", names)
        expected = self._expected.setdefault(wanted["name"], {})
        expected.update(dict.fromkeys(names))
        made = await asyncio.gather(
            *(self._create(name, wanted["name"], decision) for name in names), return_exceptions=True
        )
        failed = [name for name, result in zip(names, made, strict=True) if isinstance(result, BaseException)]
        for name in failed:
            expected.pop(name, None)
        result = "unknown" if failed else "committed"
        now_ns = self._clock.now_ns()
        self._inside.journal.concluded(Outcome(id=decision, time_ns=now_ns, result=result))  # type: ignore[arg-type]  # one of its words

    async def _create(self, name: str, owner: str, decision: str) -> Obj:
        pod = {"name": name, "owner": owner, "ready": False, "at": self._clock.now_ns(), "why": decision}
        async with self._few:
            try:
                return await asyncio.wait_for(self._client.call("POST", "/api/pods", pod), 0.04)
            except TimeoutError:
                await asyncio.sleep(0.01 * self._rng.random())
                return await self._client.call("GET", f"/api/pods/{name}")

    async def _shrink(self, wanted: Obj, names: list[str]) -> None:
        self._decided(wanted, "delete", names)
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self._delete_hedged(wanted["name"], name))

    async def _delete_hedged(self, owner: str, name: str) -> None:
        """Asked twice when the first answer takes long; whichever comes first counts."""
        expected = self._expected.setdefault(owner, {})
        expected[name] = None
        target = f"/api/pods/{name}"
        tries = {asyncio.create_task(self._client.call("DELETE", target))}
        try:
            done, _ = await asyncio.wait(tries, timeout=0.004)
            if not done:
                tries.add(asyncio.create_task(self._client.call("GET", target)))
                done, _ = await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
            error = done.pop().exception()
            if error is not None:
                expected.pop(name, None)
                if isinstance(error, Refused) and error.status == 500:
                    raise error
        finally:
            for each in tries:
                if not each.done():
                    each.cancel()
                elif not each.cancelled():
                    each.exception()

    async def _tell_ready(self, wanted: Obj, ready: int) -> None:
        async with asyncio.timeout(0.04):
            changed = {**wanted, "ready": ready, "at": self._clock.now_ns()}
            await self._client.call("PUT", f"/api/sets/{wanted['name']}", changed)
        with contextlib.suppress(asyncio.QueueFull):
            self._notes.put_nowait({"set": wanted["name"], "ready": ready, "at": self._clock.monotonic_ns()})

    async def _report(self) -> None:
        """Notes go out in batches, when ten are there or when it has been long enough."""
        while True:
            batch = [await self._notes.get()]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    while len(batch) < 10:
                        batch.append(await self._notes.get())
            with contextlib.suppress(Refused):
                event = {
                    "name": self._ids.uid(),
                    "notes": batch,
                    "lists": [self._sets.lists, self._pods.lists],
                }
                await self._client.call("POST", "/api/events", event)

    async def _kill(self) -> None:
        while True:
            await asyncio.sleep(0.15 * self._rng.random())
            if self._current:
                self._current[self._rng.choice(sorted(self._current))].cancel()

    async def _lead(self) -> None:
        while True:
            await asyncio.sleep(0.3)
            self._leading.clear()
            await asyncio.sleep(0.01 * self._rng.random())
            self._leading.set()

    async def _count_idle(self) -> None:
        while True:
            async with self._idle:
                await self._idle.wait()
            await asyncio.sleep(0.005)


def begin(inside: Inside) -> None:
    inside.domain.create_task(Adversary(inside).run())
