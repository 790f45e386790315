"""Checks what `why` proposes: the command for each waiting pod is typed in a fork, and admits the pod.

For a world at rest. Each pod gets a fork of its own. The command is read as text and made through the API, by
code that shares nothing with the remedies. A changed template makes other pods, so a pod of the same workload
counts as well. Where another workload waits for the same room or quota, it may be faster: that is told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from fathom.api.resource_cache import REGISTRY
from fathom.explain.questions import why
from fathom.explain.why.answer import NOBODY, Explanation
from fathom.model.body import Body
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.sim.fork import end, fork, perform, run_for
from fathom.sim.fork_state import ClusterState, state_of_world
from fathom.sim.single_changes.typed import ApiChange, NotMade, make, read_command
from fathom.sim.world.world import World
from fathom.sim.world_evidence import world_evidence
from fathom.store.contents import StoreContents
from fathom.store.protocol import Entry

# Virtual time in which a pod must be bound after the change; longer where the change is to wait.
BOUND_S, WAIT_S = 60.0, 600.0
LOOK_S = 10.0
NODES = f"{REGISTRY}nodes/"


class CheckedProposal(msgspec.Struct, frozen=True):
    pod: str
    cause: str
    change: str  # As `why` says it.
    made: bool  # False: there is no command for it, as to add a node or to repair one.
    bound: bool  # The pod, or another of its workload, has a node now.
    taken: bool = False  # It has not: a pod of another workload took the room.


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


def check_answers(world: World, answers: Iterable[Explanation]) -> Iterator[CheckedProposal]:
    """Those whose change was made."""
    state: ClusterState | None = None
    for answer in answers:
        state = state or with_agents(state_of_world(world))
        checked = check_answer(state, answer)
        if checked.made:
            yield checked


def check_proposal(world: World, key: Key) -> CheckedProposal:
    return check_answer(with_agents(state_of_world(world)), why(world_evidence(world, "pods", key)))


def with_agents(state: ClusterState) -> ClusterState:
    """Nodes of which nobody has ever said whether they are ready are ready in the fork, so that they have an
    agent there. A scenario with one agent for the pods of all nodes has such nodes: without agents, the fork
    would taint them a second later, and no pod that is evicted would ever end."""
    entries = tuple(map(_with_ready_node, state.contents.entries))
    return msgspec.structs.replace(state, contents=StoreContents(entries, state.contents.revision))


def _with_ready_node(entry: Entry) -> Entry:
    if not entry.key.startswith(NODES) or find_condition(conditions_of(entry.body.obj), "Ready"):
        return entry
    node = entry.body.obj
    since = metadata(node).get("creationTimestamp")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": since}
    status = {**(node.get("status") or {}), "conditions": [*conditions_of(node), ready]}
    return Entry(entry.key, Body({**node, "status": status}), entry.revision, entry.created)


def check_answer(state: ClusterState, answer: Explanation) -> CheckedProposal:
    """The change of an answer, made in a fork. Raises ForkFailed."""
    change = answer.change
    name, what = "/".join(answer.subject.key), "" if change is None else change.what
    waits = change is not None and change.who == NOBODY
    try:
        steps = [] if waits else read_command("" if change is None else change.command)
        newly = _bound_after(state, answer.subject.key, steps, within_s=WAIT_S if waits else BOUND_S)
    except NotMade:
        return CheckedProposal(name, answer.cause, what, made=False, bound=False)
    bound = any(newly)
    return CheckedProposal(name, answer.cause, what, made=True, bound=bound, taken=bool(newly) and not bound)


def _bound_after(state: ClusterState, key: Key, steps: list[ApiChange], *, within_s: float) -> list[bool]:
    """For each pod that got a node: whether it is this one, or of the same workload."""
    world = fork(state, "0")
    try:
        before = {uid_of(pod) for pod in world.list("pods") if lookup(pod, "spec", "nodeName")}
        owners = _owners(world, world.get("pods", key) or {})
        perform(world, lambda world: make(world, steps))
        newly: list[bool] = []
        waited_s = 0.0
        while waited_s < within_s and not any(newly):
            run_for(world, LOOK_S)
            waited_s += LOOK_S
            newly = [
                key_of(pod) == key or bool(owners & _owners(world, pod))
                for pod in world.list("pods")
                if lookup(pod, "spec", "nodeName") and uid_of(pod) not in before
            ]
        return newly
    finally:
        end(world)


def _owners(world: World, pod: Obj) -> set[str]:
    """UIDs of the pod's controller and of the controller of that."""
    references = list(metadata(pod).get("ownerReferences") or ())
    for reference in tuple(references):
        place = Key(key_of(pod).namespace, str(reference.get("name")))
        owner = world.get("replicasets.apps", place) if reference.get("kind") == "ReplicaSet" else None
        references += metadata(owner or {}).get("ownerReferences") or ()
    return {str(reference.get("uid")) for reference in references}


def unmet(checked: Iterable[CheckedProposal]) -> list[CheckedProposal]:
    """Proposals that were made and gave no pod a node."""
    return [proposal for proposal in checked if proposal.made and not proposal.bound and not proposal.taken]
