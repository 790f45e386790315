"""The runtime behind the seam: every call is a request to `runtime:/…`, every end of a run a streamed line.

So the results of a real machine are on the tape, and a replay needs no machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from fathom.agent.runtime import ContainerNotStarted, ContainerRun, KeptContainer, Launch, ProbeResult
from fathom.model.objects import Obj, uid_of
from fathom.seams.seam import Ask, Reply, Seam

T = TypeVar("T")

SCHEME = "runtime:"
USED = f"{SCHEME}/used"  # Simulated containers report their usage here.
# Longer than anything the host does for us takes: an image, a start.
TIMEOUT_S = 120.0
AGAIN_S = 1.0
RETRY_S = 2.0  # Before a failed call to the host is retried.


class RuntimeSignal(msgspec.Struct, frozen=True):
    id: str
    uid: str
    container: str
    attempt: int
    kill: bool


class Probing(msgspec.Struct, frozen=True):
    run: ContainerRun
    pod: Obj
    probe: Obj
    ip: str


class RuntimeFailed(Exception):
    """The host could not do it; the message says why."""


async def again(
    ask: Callable[[], Awaitable[T]], tell: Callable[[RuntimeFailed], None] = lambda error: None
) -> T:
    """Retry until the host succeeds: for calls that must be done in the end."""
    while True:
        try:
            return await ask()
        except RuntimeFailed as error:
            tell(error)
        await asyncio.sleep(RETRY_S)


class SeamRuntime:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def listen(self, ended: Callable[[ContainerRun], None], began: Callable[[], None]) -> None:
        while True:
            stream = await self._seam.open(Ask("GET", f"{SCHEME}/ends"), timeout_s=TIMEOUT_S)
            if not isinstance(stream, Reply):
                began()
                while (chunks := await stream.read()) is not None:
                    for line in b"".join(chunks).splitlines():
                        ended(msgspec.json.decode(line, type=ContainerRun))
            await asyncio.sleep(AGAIN_S)

    async def listing(self) -> tuple[KeptContainer, ...]:
        pods: tuple[KeptContainer, ...] = await self._call("listing", None, tuple[KeptContainer, ...])
        return pods

    async def admit(self, pod: Obj) -> KeptContainer:
        kept: KeptContainer = await self._call("admit", pod, KeptContainer)
        return kept

    async def start(self, launch: Launch) -> ContainerRun | ContainerNotStarted:
        reply = await self._ask("start", launch)
        if reply.status == 200:
            return msgspec.json.decode(reply.body, type=ContainerRun)
        if reply.status == 422:
            return msgspec.json.decode(reply.body, type=ContainerNotStarted)
        return ContainerNotStarted("RunContainerError", _text_of(reply))

    async def signal(self, run: ContainerRun, *, kill: bool) -> None:
        await self._call("signal", RuntimeSignal(run.id, run.uid, run.container, run.attempt, kill), Any)

    async def probe(self, run: ContainerRun, pod: Obj, probe: Obj, *, ip: str) -> ProbeResult:
        body = Probing(run, _named(pod), probe, ip)
        reply = await self._ask("probe", body, patience_s=float(probe.get("timeoutSeconds") or 0))
        if reply.status == 200:
            return msgspec.json.decode(reply.body, type=ProbeResult)
        return ProbeResult(False, _text_of(reply))

    async def remove(self, uid: str) -> None:
        await self._call("remove", uid, Any)

    async def _call(self, call: str, body: Any, as_: Any) -> Any:
        reply = await self._ask(call, body)
        if reply.status != 200:
            raise RuntimeFailed(f"{call}: {_text_of(reply)}")
        return msgspec.json.decode(reply.body or b"null", type=as_)

    async def _ask(self, call: str, body: Any, *, patience_s: float = 0.0) -> Reply:
        """`patience_s`: the time that the host allows for it, added to the usual timeout."""
        ask = Ask("POST", f"{SCHEME}/{call}", msgspec.json.encode(body))
        return await self._seam.request(ask, timeout_s=TIMEOUT_S + patience_s)


def _named(pod: Obj) -> Obj:
    """The part of the pod that a probe needs: named ports. Probes are frequent, so requests are kept
    small."""
    spec = pod.get("spec") or {}
    ports = [
        {"name": container["name"], "ports": container.get("ports") or []}
        for container in spec.get("containers") or ()
    ]
    first = [
        {"name": container["name"], "ports": container.get("ports") or []}
        for container in spec.get("initContainers") or ()
    ]
    return {"metadata": {"uid": uid_of(pod)}, "spec": {"containers": ports, "initContainers": first}}


def _text_of(reply: Reply) -> str:
    return reply.body.decode("utf-8", "replace") if isinstance(reply.body, bytes) else str(reply.body)
