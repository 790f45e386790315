"""Checks what `why` proposes: the command for each waiting pod is typed in a fork, and admits the pod.

For a world at rest. Each pod gets a fork of its own. The command is read as text and made through the API, by
code that shares nothing with the remedies. Where several pods wait for the same room, one of them gets it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.explain.questions import why
from fathom.explain.why.answer import NOBODY, Explanation
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.sim.fork import end, fork, perform, run_for
from fathom.sim.fork_state import ClusterState, state_of_world
from fathom.sim.single_changes.typed import ApiChange, NotMade, make, read_command
from fathom.sim.world.world import World
from fathom.sim.world_evidence import world_evidence

# Virtual time in which a pod must be bound after the change; longer where the change is to wait.
BOUND_S, WAIT_S = 60.0, 600.0
LOOK_S = 10.0


class CheckedProposal(msgspec.Struct, frozen=True):
    pod: str
    cause: str
    change: str  # As `why` says it.
    made: bool  # False: there is no command for it, as to add a node or to repair one.
    bound: bool


def waiting_pods(world: World) -> list[Obj]:
    """Pods without a node that are not about to go."""
    return [
        pod
        for pod in world.list("pods")
        if not lookup(pod, "spec", "nodeName") and not is_deleting(pod) and not is_terminal(pod)
    ]


def check_proposals(world: World) -> list[CheckedProposal]:
    """One for each waiting pod."""
    return [check_proposal(world, key_of(pod)) for pod in waiting_pods(world)]


def check_proposal(world: World, key: Key) -> CheckedProposal:
    return check_answer(state_of_world(world), why(world_evidence(world, "pods", key)))


def check_answer(state: ClusterState, answer: Explanation) -> CheckedProposal:
    """The change of an answer, made in a fork. Raises ForkFailed."""
    key, change = answer.subject.key, answer.change
    name, what = "/".join(key), "" if change is None else change.what
    waits = change is not None and change.who == NOBODY
    try:
        steps = [] if waits else read_command("" if change is None else change.command)
        bound = _is_admitted_after(state, key, steps, within_s=WAIT_S if waits else BOUND_S)
    except NotMade:
        return CheckedProposal(name, answer.cause, what, made=False, bound=False)
    return CheckedProposal(name, answer.cause, what, made=True, bound=bound)


def _is_admitted_after(state: ClusterState, key: Key, steps: list[ApiChange], *, within_s: float) -> bool:
    world = fork(state, "0")
    try:
        before = {uid_of(pod) for pod in world.list("pods") if lookup(pod, "spec", "nodeName")}
        owner = owner_names(world, world.get("pods", key) or {})
        perform(world, lambda world: make(world, steps))
        waited_s = 0.0
        while waited_s < within_s and not _is_admitted(world, key, owner, before):
            run_for(world, LOOK_S)
            waited_s += LOOK_S
        return _is_admitted(world, key, owner, before)
    finally:
        end(world)


def _is_admitted(world: World, key: Key, owner: set[str], before: set[str]) -> bool:
    """The pod has a node, or another of its workload that had none before: a changed template makes other
    pods, and a sibling may take the place."""
    return any(
        bool(lookup(pod, "spec", "nodeName"))
        and uid_of(pod) not in before
        and (key_of(pod) == key or bool(owner & owner_names(world, pod)))
        for pod in world.list("pods")
    )


def owner_names(world: World, pod: Obj) -> set[str]:
    """The pod's controller and the controller of that, by UID."""
    found: set[str] = set()
    references = list(metadata(pod).get("ownerReferences") or ())
    while references:
        reference = references.pop()
        found.add(str(reference.get("uid")))
        if reference.get("kind") == "ReplicaSet":
            place = Key(key_of(pod).namespace, str(reference.get("name")))
            owner = world.get("replicasets.apps", place)
            references += metadata(owner or {}).get("ownerReferences") or ()
    return found


def unmet(checked: Iterable[CheckedProposal]) -> list[CheckedProposal]:
    """Proposals that were made and did not admit their pod."""
    return [proposal for proposal in checked if proposal.made and not proposal.bound]
