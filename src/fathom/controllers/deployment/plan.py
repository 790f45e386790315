"""What a Deployment does next: the revision it creates, how many pods each revision should have. Pure.

A rolling update takes one step at a time: first the new revision grows as far as the surge allows, then old
revisions shrink as far as enough other pods are available. So there are never more pods than wanted plus the
surge, and never fewer available than wanted minus the allowed unavailability. A rollback is a rolling update
too.

A rollout that has made no progress for too long is not pushed on: the new revision gets no more pods, and the
old ones lose no healthy pod, until a pod gets ready or the template changes. With the annotation
`fathom.dev/auto-revert: "true"` the Deployment rolls back to the previous revision by itself, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from fathom.cache.needs import Need, NoOlderThan
from fathom.control.ownership import OwnerClaims
from fathom.control.plan import (
    NOTHING,
    OWN_WRITES,
    Action,
    Create,
    Delete,
    Patch,
    Plan,
    WriteStatus,
    adopt,
    release,
    target,
)
from fathom.control.reconcile_result import Failure
from fathom.controllers.deployment.plan_rollback import is_to_be_reverted, reverted
from fathom.controllers.deployment.plan_status import (
    FAILED_CREATE,
    PROGRESSING,
    counts_of,
    deadline_s_of,
    has_timed_out,
    is_complete,
    plan_status,
    said,
)
from fathom.controllers.deployment.proportions import (
    is_rolling,
    max_unavailable,
    most_of,
    shared_out,
    wanted_of,
)
from fathom.controllers.deployment.revisions import (
    DESIRED,
    MOST,
    REVISION,
    Sets,
    new_notes,
    notes_of,
    outdated,
    set_name,
    set_of,
    size_of,
    split,
    template_hash,
)
from fathom.controllers.override_pauses import as_decisive
from fathom.model.conditions import conditions_of
from fathom.model.decision import Considered
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Obj, is_deleting, lookup, metadata, uid_of

# Scaling a revision down on an old view could take the last healthy pods.
NEEDS: tuple[Need, ...] = (OWN_WRITES, NoOlderThan(FRESH_S, ("Deployment", "ReplicaSet", "Pod")))


class DeploymentFacts(msgspec.Struct, frozen=True):
    """The inputs of a decision about one Deployment."""

    claims: OwnerClaims
    available: Mapping[str, int]  # ReplicaSet's UID -> its available pods, judged by the pods themselves.
    running: Mapping[str, int]  # ReplicaSet's UID -> its pods that have not ended, terminating ones included.
    live: Mapping[str, int] = {}  # ReplicaSet's UID -> its pods that are neither ended nor terminating.
    named: Callable[[str], bool] = lambda name: False  # Whether a ReplicaSet of that name exists.
    needs: tuple[Need, ...] = ()
    paused_by: str = ""  # The override that pauses its rollouts.
    waited_s: float | None = None  # How long it has been without progress, as its controller has seen it.
    considered: tuple[Considered, ...] = ()  # The overrides that pause its rollouts.


class _Steps(msgspec.Struct, frozen=True):
    creates: tuple[Create, ...] = ()
    patches: tuple[Patch, ...] = ()
    deletes: tuple[Delete, ...] = ()
    statuses: tuple[WriteStatus, ...] = ()
    why: str = ""

    @property
    def actions(self) -> tuple[Action, ...]:
        return (*self.creates, *self.patches, *self.deletes)


def plan_deployment(deployment: Obj, facts: DeploymentFacts, *, now: str) -> Plan:
    claims = facts.claims
    if claims.adopt or claims.release:
        return Plan(
            patches=(
                *(adopt("ReplicaSet", replica_set, deployment) for replica_set in claims.adopt),
                *(release("ReplicaSet", replica_set, deployment) for replica_set in claims.release),
            ),
            why="adopt or release ReplicaSets",
        )
    sets = split(deployment, claims.mine)
    steps = _settled_steps(deployment, sets, facts)
    touches_itself = any(patch.target.kind == "Deployment" for patch in steps.patches)
    statuses = steps.statuses
    if not statuses and not touches_itself:
        statuses = plan_status(deployment, sets, now=now, paused_by=facts.paused_by, waited_s=facts.waited_s)
    # A new revision counts too: its size follows from the sizes of the others.
    matters = bool(steps.creates or steps.deletes) or any(patch.destructive for patch in steps.patches)
    return Plan(
        creates=steps.creates,
        patches=steps.patches,
        deletes=steps.deletes,
        statuses=statuses,
        needs=(*NEEDS, *facts.needs) if matters else (),
        why=steps.why,
        considered=_considered(deployment, sets, facts, steps),
        heeds_pauses=matters,
    )


def _settled_steps(deployment: Obj, sets: Sets, facts: DeploymentFacts) -> _Steps:
    return _Steps() if is_deleting(deployment) else _settled(_steps(deployment, sets, facts), sets, facts)


def _considered(deployment: Obj, sets: Sets, facts: DeploymentFacts, steps: _Steps) -> tuple[Considered, ...]:
    """The overrides that pause it; decisive if another step would be taken without them."""
    if not facts.considered:
        return ()
    unpaused = msgspec.structs.replace(facts, paused_by="")
    differs = _settled_steps(deployment, sets, unpaused).actions != steps.actions
    return as_decisive(facts.considered, facts.paused_by if differs else "")


def _steps(deployment: Obj, sets: Sets, facts: DeploymentFacts) -> _Steps:
    """The first of these steps that changes something."""
    paused = bool(lookup(deployment, "spec", "paused") or facts.paused_by)
    if not paused and is_to_be_reverted(deployment, sets):
        patch, why = reverted(deployment, sets)
        return _Steps(patches=(patch,), why=why)
    if sets.new is not None and is_deleting(sets.new):
        return _Steps(why="the newest ReplicaSet is being deleted")
    if paused or _was_scaled(deployment, sets):
        scaled = _scaled(deployment, sets, facts)
        if scaled.patches:
            return scaled
    if paused:
        return _kept(deployment, sets, facts)
    if sets.new is None:
        return _make_new(deployment, sets, facts)
    noted = _noted(deployment, sets)
    if noted is not None:
        return noted
    if is_rolling(deployment):
        return _roll(deployment, sets, facts)
    return _recreate(deployment, sets, facts)


def _kept(deployment: Obj, sets: Sets, facts: DeploymentFacts) -> _Steps:
    """What is still done while it is paused: annotations and history."""
    noted = None if sets.new is None else _noted(deployment, sets)
    kept = noted or _without_history(deployment, sets)
    by = f"the override {facts.paused_by}" if facts.paused_by else "spec.paused"
    return kept if kept.actions else _Steps(why=f"the rollout is paused by {by}")


def _settled(steps: _Steps, sets: Sets, facts: DeploymentFacts) -> _Steps:
    """No revision grows before every revision has reached its last requested size:

    1. The old revision, with five wanted, is creating pods. 2. It is scaled to four, and the new one to one.
    3. A create still under way from 1 makes the fifth: six for five wanted.

    A ReplicaSet whose status has observed its newest generation has no create of an older one under way."""
    sizes = {metadata(replica_set)["name"]: size_of(replica_set) for replica_set in sets.all}
    if not any(_is_unsettled(replica_set, facts) for replica_set in sets.all):
        return steps
    patches = tuple(
        patch
        for patch in steps.patches
        if int(lookup(patch.patch, "spec", "replicas") or 0) <= sizes.get(patch.target.key.name, 0)
        or patch.target.kind != "ReplicaSet"
    )
    creates = tuple(Create("ReplicaSet", _emptied(create.obj)) for create in steps.creates)
    settled = msgspec.structs.replace(steps, patches=patches, creates=creates)
    if steps.actions and not settled.actions:
        return msgspec.structs.replace(settled, why="ReplicaSets have not reached their last size yet")
    return settled


def _is_unsettled(replica_set: Obj, facts: DeploymentFacts) -> bool:
    seen = int(lookup(replica_set, "status", "observedGeneration") or 0)
    behind = seen < int(metadata(replica_set).get("generation") or 0)
    # The status may count pods that our view does not show yet, and the other way round.
    reported = int(lookup(replica_set, "status", "replicas") or 0)
    return behind or max(reported, facts.live.get(uid_of(replica_set), 0)) > size_of(replica_set)


def _emptied(replica_set: Obj) -> Obj:
    return {**replica_set, "spec": {**replica_set["spec"], "replicas": 0}}


# The newest revision.


def _make_new(deployment: Obj, sets: Sets, facts: DeploymentFacts) -> _Steps:
    if not is_rolling(deployment):
        emptied = _empty_old(deployment, sets)
        if emptied.patches or any(facts.running.get(uid_of(old)) for old in sets.old):
            return emptied
    collisions = int(lookup(deployment, "status", "collisionCount") or 0)
    hash_ = template_hash(deployment, collisions)
    name = set_name(deployment, hash_)
    if facts.named(name):
        # The name is taken: by another owner's ReplicaSet, or by ours with a template changed by hand.
        status = WriteStatus(target("Deployment", deployment), {"collisionCount": collisions + 1})
        return _Steps(statuses=(status,), why=f"the ReplicaSet name {name} is taken")
    notes = {**new_notes(deployment, sets), **_size_notes(deployment)}
    # 1. The create of a ReplicaSet is late, and the template changes. 2. The next one is created. 3. Both are
    # there. Where no two revisions may run at once, each begins without pods, and only the newest gets some.
    size = _new_size(deployment, sets, facts) if is_rolling(deployment) else 0
    replica_set = set_of(deployment, hash_=hash_, replicas=size, notes=notes)
    return _Steps(creates=(Create("ReplicaSet", replica_set),), why=f"create the new revision {name}")


def _noted(deployment: Obj, sets: Sets) -> _Steps | None:
    """Updates revision numbers, and fields copied from the Deployment."""
    assert sets.new is not None
    notes = new_notes(deployment, sets)
    change: Obj = {}
    if any(notes_of(sets.new).get(name) != value for name, value in notes.items()):
        change["metadata"] = {"annotations": notes}
    min_ready_s = int(lookup(deployment, "spec", "minReadySeconds") or 0)
    if int(lookup(sets.new, "spec", "minReadySeconds") or 0) != min_ready_s:
        change["spec"] = {"minReadySeconds": min_ready_s}
    if change:
        return _Steps(
            patches=(Patch(target("ReplicaSet", sets.new), change),), why="update the newest ReplicaSet"
        )
    if notes_of(deployment).get(REVISION) != notes[REVISION]:
        change = {"metadata": {"annotations": {REVISION: notes[REVISION]}}}
        return _Steps(
            patches=(Patch(target("Deployment", deployment), change),), why="update the revision annotation"
        )
    return None


def _size_notes(deployment: Obj) -> dict[str, str]:
    return {DESIRED: str(wanted_of(deployment)), MOST: str(most_of(deployment))}


def _sized(deployment: Obj, replica_set: Obj, replicas: int) -> tuple[Patch, ...]:
    """Scales the ReplicaSet, and notes the numbers that this was decided from."""
    notes = _size_notes(deployment)
    noted = all(notes_of(replica_set).get(name) == value for name, value in notes.items())
    if size_of(replica_set) == replicas and (noted or not replicas):
        return ()
    change: Obj = {"metadata": {"annotations": notes}}
    if size_of(replica_set) != replicas:
        change["spec"] = {"replicas": replicas}
    return (Patch(target("ReplicaSet", replica_set), change, destructive="spec" in change),)


# Scaling without advancing a rollout.


def _was_scaled(deployment: Obj, sets: Sets) -> bool:
    wanted = str(wanted_of(deployment))
    return any(notes_of(replica_set).get(DESIRED, wanted) != wanted for replica_set in sets.active)


def _scaled(deployment: Obj, sets: Sets, facts: DeploymentFacts) -> _Steps:
    sizes = _sizes(deployment, sets, facts)
    patches = [
        patch for replica_set in sets.all if (size := sizes.get(metadata(replica_set)["name"])) is not None
        for patch in _sized(deployment, replica_set, size)
    ]  # fmt: skip
    return _Steps(patches=tuple(patches), why=f"scale to {wanted_of(deployment)}" if patches else "")


def _sizes(deployment: Obj, sets: Sets, facts: DeploymentFacts) -> dict[str, int]:
    only = _only(sets)
    if only is not None:
        return {metadata(only)["name"]: wanted_of(deployment)}
    if sets.new is not None and _is_saturated(deployment, sets.new, facts):
        return {metadata(replica_set)["name"]: 0 for replica_set in sets.old if size_of(replica_set)}
    if not is_rolling(deployment):
        return {}
    return _keeping_available(deployment, sets, shared_out(deployment, sets.active), facts)


def _keeping_available(
    deployment: Obj, sets: Sets, sizes: dict[str, int], facts: DeploymentFacts
) -> dict[str, int]:
    """In proportion, except that available pods that must stay available are kept: 1. Of five, two old pods
    are available and three new ones are not. 2. Two are wanted. 3. In proportion, one of each would stay: one
    is available. So pods that are not available are taken instead, as far as there are any."""
    least = wanted_of(deployment) - max_unavailable(deployment)
    available = {
        metadata(replica_set)["name"]: available_of(replica_set, facts) for replica_set in sets.active
    }
    lacking = min(least, sum(available.values())) - sum(
        min(available[name], size) for name, size in sizes.items()
    )
    kept = dict(sizes)
    for name, size in sizes.items():
        more = max(0, min(lacking, available[name] - size))
        kept[name] += more
        lacking -= more
    over = sum(kept.values()) - sum(sizes.values())
    for name, size in list(kept.items()):
        fewer = max(0, min(over, size - available[name]))
        kept[name] -= fewer
        over -= fewer
    enough = sum(min(available[name], size) for name, size in kept.items()) >= least
    return kept if enough else _unless_counts_differ(sets, kept, facts)


def _unless_counts_differ(sets: Sets, sizes: dict[str, int], facts: DeploymentFacts) -> dict[str, int]:
    """No ReplicaSet shrinks whose status and pods differ: how many of its pods are available is known when
    they agree, and it is scaled then."""
    current = {metadata(replica_set)["name"]: replica_set for replica_set in sets.active}
    return {
        name: size for name, size in sizes.items()
        if size >= size_of(current[name])
        or available_of(current[name], facts) == most_available_of(current[name], facts)
    }  # fmt: skip


def _only(sets: Sets) -> Obj | None:
    """The only active ReplicaSet; if none is active, the newest."""
    if not sets.active:
        return sets.new or (sets.old[-1] if sets.old else None)
    return sets.active[0] if len(sets.active) == 1 else None


def _is_saturated(deployment: Obj, new: Obj, facts: DeploymentFacts) -> bool:
    wanted = wanted_of(deployment)
    return wanted == available_of(new, facts) == size_of(new) and notes_of(new).get(DESIRED) == str(wanted)


# Rolling.


def _new_size(deployment: Obj, sets: Sets, facts: DeploymentFacts) -> int:
    """The largest size that the new revision may have now."""
    wanted, size = wanted_of(deployment), 0 if sets.new is None else size_of(sets.new)
    if not is_rolling(deployment) or size > wanted:
        return wanted
    most = most_of(deployment)
    over = sum(map(size_of, sets.all)) - most
    if sets.new is not None and over > 0:
        # It did not count the others: 1. A ReplicaSet of five is created, and the request is slow. 2. Its
        # sender dies; the next one creates another revision. 3. The request arrives. So what it has not
        # created yet is given back.
        return min(size, max(size - over, facts.live.get(uid_of(sets.new), 0)))
    room = most - sum(_pods_max(replica_set, facts) for replica_set in sets.all)
    return size if room <= 0 else size + min(room, wanted - size)


def _pods_max(replica_set: Obj, facts: DeploymentFacts) -> int:
    """The most pods it may have: those it is to create, or those it has not deleted yet."""
    return max(size_of(replica_set), facts.live.get(uid_of(replica_set), 0))


def _roll(deployment: Obj, sets: Sets, facts: DeploymentFacts) -> _Steps:
    assert sets.new is not None
    size = _new_size(deployment, sets, facts)
    if has_timed_out(deployment, sets):
        size = min(size, size_of(sets.new))
    grown = _sized(deployment, sets.new, size)
    if grown:
        return _Steps(patches=grown, why=f"scale the new revision from {size_of(sets.new)} to {size}")
    if has_timed_out(deployment, sets):
        return _tidied(deployment, sets, "the rollout has timed out: it goes no further")
    shrunk = _shrunk(deployment, sets, facts)
    if shrunk:
        return _Steps(patches=shrunk, why="scale down old revisions")
    available = f"{available_of(sets.new, facts)} of {wanted_of(deployment)}"
    return _tidied(deployment, sets, f"{available} pods of the newest revision are available")


def available_of(replica_set: Obj, facts: DeploymentFacts) -> int:
    """The least of its status, its pods and its size: a status may be from before it was scaled."""
    reported = int(lookup(replica_set, "status", "availableReplicas") or 0)
    return min(reported, facts.available.get(uid_of(replica_set), 0), size_of(replica_set))


def most_available_of(replica_set: Obj, facts: DeploymentFacts) -> int:
    """The most of its status and its pods, within its size. What exceeds it is surely not available:

    1. The reply to an update of the status is lost. Until that is given up, ten seconds later, the status has
    none of four pods that become available. 2. A rollout takes two of them for unavailable, and keeps a pod
    of another revision that has never been ready."""
    reported = int(lookup(replica_set, "status", "availableReplicas") or 0)
    return min(max(reported, facts.available.get(uid_of(replica_set), 0)), size_of(replica_set))


def _shrunk(deployment: Obj, sets: Sets, facts: DeploymentFacts) -> tuple[Patch, ...]:
    """Shrinks old revisions, the oldest first: unavailable pods go first, as long as the pods that the new
    revision still lacks are covered; available ones as far as there are more than the minimum."""
    assert sets.new is not None
    least = wanted_of(deployment) - max_unavailable(deployment)
    sizes = {metadata(replica_set)["name"]: size_of(replica_set) for replica_set in sets.old}
    lacking = size_of(sets.new) - available_of(sets.new, facts)
    room = sum(map(size_of, sets.all)) - least - lacking
    for replica_set in sets.old:
        taken = max(0, min(room, size_of(replica_set) - most_available_of(replica_set, facts)))
        sizes[metadata(replica_set)["name"]] -= taken
        room -= taken
    spare = min(room, sum(available_of(replica_set, facts) for replica_set in sets.all) - least)
    for replica_set in sets.old:
        name = metadata(replica_set)["name"]
        taken = max(0, min(spare, sizes[name], available_of(replica_set, facts)))
        sizes[name] -= taken
        spare -= taken
    patches = [
        patch for old in sets.old if (size := sizes[metadata(old)["name"]]) != size_of(old)
        for patch in _sized(deployment, old, size)
    ]  # fmt: skip
    return tuple(patches)


# Strategy Recreate.


def _recreate(deployment: Obj, sets: Sets, facts: DeploymentFacts) -> _Steps:
    """Creates no new pod before all old ones are gone, terminating ones included."""
    assert sets.new is not None
    emptied = _empty_old(deployment, sets)
    if emptied.patches or any(facts.running.get(uid_of(old)) for old in sets.old):
        return emptied
    grown = _sized(deployment, sets.new, wanted_of(deployment))
    if grown:
        return _Steps(patches=grown, why="scale up the new revision")
    available = f"{available_of(sets.new, facts)} of {wanted_of(deployment)}"
    return _tidied(deployment, sets, f"{available} pods of the newest revision are available")


def _empty_old(deployment: Obj, sets: Sets) -> _Steps:
    patches = [patch for old in sets.old if size_of(old) for patch in _sized(deployment, old, 0)]
    why = "scale old revisions to 0" if patches else "pods of old revisions have not ended yet"
    return _Steps(patches=tuple(patches), why=why)


def _tidied(deployment: Obj, sets: Sets, waits_for: str) -> _Steps:
    """Deletes history beyond its limit, once the rollout is over."""
    if not is_complete(deployment, counts_of(deployment, sets)):
        return _Steps(why=waits_for)
    return _without_history(deployment, sets)


def _without_history(deployment: Obj, sets: Sets) -> _Steps:
    deletes = tuple(Delete(target("ReplicaSet", old), as_read=True) for old in outdated(deployment, sets))
    return _Steps(deletes=deletes, why="delete revisions beyond the history limit" if deletes else "")


def plan_create_failure(deployment: Obj, failure: Failure, *, name: str, now: str) -> Plan:
    """`name`: of the ReplicaSet that could not be created."""
    if deadline_s_of(deployment) is None:
        return NOTHING
    message = f'Failed to create new replica set "{name}": {failure.answer or failure.message}'
    conditions = said(conditions_of(deployment), PROGRESSING, "False", FAILED_CREATE, message, now=now)
    write = WriteStatus(target("Deployment", deployment), {"conditions": conditions})
    if conditions == conditions_of(deployment):
        return NOTHING
    return Plan(statuses=(write,), why=failure.reason)
