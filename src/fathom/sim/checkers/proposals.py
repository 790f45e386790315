"""At rest, the change that `why` proposes for a waiting pod admits it: made in a fork of the world, as typed.

A sample: a fork costs about as much as ten seconds of the scenario itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from zlib import crc32

from fathom.model.objects import key_of
from fathom.sim.world.invariants import Checker, Finding

if TYPE_CHECKING:
    from fathom.sim.world.world import World

ASKED_MAX = 5  # Pods of one run that are asked about; the first for which something can be typed is tried.


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
        from fathom.sim.fork_check import check_proposal, waiting_pods  # noqa: PLC0415 - it makes worlds.

        if world.engine.now_ns != self._at_rest_ns:
            return
        pods = sorted(waiting_pods(world), key=lambda pod: crc32("/".join(key_of(pod)).encode()))
        for pod in pods[:ASKED_MAX]:
            checked = check_proposal(world, key_of(pod))
            if not checked.made:
                continue
            world.sometimes("a proposed change is made in a fork")
            if checked.taken:
                world.sometimes("another workload took the room of a proposed change")
            elif not checked.bound:
                path = f"pods/{checked.pod}"
                yield Finding(f"{checked.pod}: {checked.cause}. Not admitted by: {checked.change}", (path,))
            return
