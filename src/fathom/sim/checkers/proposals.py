"""At rest, the change that `why` proposes for each waiting pod admits it: made as typed, in a fork.

Of pods with the same spec and the same answer one is tried: each fork costs as much as ten seconds of the
scenario.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from zlib import crc32

from fathom.explain.questions import why
from fathom.explain.why.answer import Explanation
from fathom.model.body import encode_sorted
from fathom.model.objects import Obj, key_of
from fathom.sim.world.invariants import Checker, Finding
from fathom.sim.world_evidence import world_evidence

if TYPE_CHECKING:
    from fathom.sim.world.world import World

ASKED_MAX, TRIED_MAX = 100, 10  # Waiting pods, and different answers, of one run.


class ProposedChangesHelp(Checker):
    name = "the change that why proposes for a waiting pod admits it"
    resources = frozenset[str]()

    def __init__(self) -> None:
        self._at_rest_ns = -1

    def settled(self, world: World) -> Iterable[str | Finding]:
        self._at_rest_ns = world.engine.now_ns
        return ()

    def ended(self, world: World) -> Iterable[str | Finding]:
        """Only for a world that has come to rest and was not disturbed since."""
        from fathom.sim.fork_check import check_answers, waiting_pods  # noqa: PLC0415 - it makes worlds.

        if world.engine.now_ns != self._at_rest_ns:
            return
        pods = sorted(waiting_pods(world), key=lambda pod: crc32("/".join(key_of(pod)).encode()))
        answers = _different_answers(world, pods[:ASKED_MAX])
        if len(answers) > TRIED_MAX or len(pods) > ASKED_MAX:
            world.sometimes("more changes are proposed than are tried")
        for checked in check_answers(world, answers[:TRIED_MAX]):
            world.sometimes("a proposed change is made in a fork")
            if checked.taken:
                world.sometimes("another workload took the room of a proposed change")
            elif not checked.bound:
                path = f"pods/{checked.pod}"
                yield Finding(f"{checked.pod}: {checked.cause}. Not admitted by: {checked.change}", (path,))


def _different_answers(world: World, pods: Iterable[Obj]) -> list[Explanation]:
    """What is proposed for each, without those that differ in the pod's name alone."""
    different: dict[tuple[bytes, str], Explanation] = {}
    for pod in pods:
        answer = why(world_evidence(world, "pods", key_of(pod)))
        change = "" if answer.change is None else f"{answer.change.what} {answer.change.command}"
        said = f"{answer.cause}. {change}".replace(key_of(pod).name, "NAME")
        different.setdefault((encode_sorted(pod["spec"]), said), answer)
    return list(different.values())
