"""From a state and an override to the answer of a preview."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fathom.client.api import own_resource
from fathom.kinds.override_changes import WORKLOAD_TARGETS
from fathom.kinds.preview_answer import (
    FORK,
    Counts,
    Futures,
    Preview,
    override_hash,
    preview_token,
)
from fathom.kinds.scheduler_override import DEFINITION, SchedulerOverride, named
from fathom.kinds.shape import read
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS, duration_ns
from fathom.model.user import User
from fathom.sim.fork_state import ClusterState
from fathom.sim.preview.counting import target_of, workload_name
from fathom.sim.preview.difference import differences, with_fewer_workloads
from fathom.sim.preview.futures import Future, Moments, TriedObject, future
from fathom.sim.preview.not_modelled import NOT_MODELLED
from fathom.sim.preview.touched import StateObjects, touched_by, workloads_of_target

# How long its end is watched: an autoscaler looks back for five minutes.
AFTER_S = 300.0
# It is counted before its end, and ends after it was counted.
MARGIN_S = 5.0


def preview_override(
    state: ClusterState,
    override: Obj,
    *,
    user: User,
    minutes: int,
    seeds: Sequence[str],
    has_time: Callable[[int], bool] = lambda done: True,
) -> Preview:
    """`override` has its namespace. `has_time`: whether there is time for another seed after so many. Raises
    ForkFailed, and ValueError for what is no SchedulerOverride."""
    shape = read(SchedulerOverride, override)
    moments, tried_obj, notes = _bounded(override, minutes)
    tried = TriedObject(own_resource(DEFINITION), tried_obj, user)
    is_target = target_of(shape)
    hash_ = override_hash(override)
    head = Preview(
        token=preview_token(state.contents.revision, hash_),
        revision=state.contents.revision,
        hash=hash_,
        method=FORK,
        minutes=minutes,
        seeds=tuple(seeds),
        not_modelled=NOT_MODELLED,
    )
    with_: list[Future] = []
    without: list[Future] = []
    for done, seed in enumerate(seeds):
        if done and not has_time(done):
            notes = (*notes, f"{done} of {len(seeds)} seeds were run: there was no time for more.")
            break
        with_.append(future(state, seed, moments, is_target, tried))
        if with_[0].refused is not None:
            now = msgspec.structs.replace(with_[0].now, replicas={}, seed="")
            return msgspec.structs.replace(head, now=now, refused=with_[0].refused)
        without.append(future(state, seed, moments, is_target, None))
    objects = StateObjects(state)
    notes = (*notes, *_names_nothing(shape, objects, without[0]))
    counted = _counted(head, moments, without, with_, keep=workloads_of_target(objects, shape))
    return msgspec.structs.replace(
        counted,
        seeds=tuple(seeds[: len(with_)]),
        notes=(*notes, *dict.fromkeys(note for each in with_ for note in each.notes)),
        touched=touched_by(objects, shape, without, with_),
    )


def _counted(
    head: Preview, moments: Moments, without: Sequence[Future], with_: Sequence[Future], *, keep: list[Obj]
) -> Preview:
    """`keep`: workloads whose replicas are told, though they may not differ."""
    count = len(without)
    outcomes = [without[0].now]
    for futures in (without, with_):
        outcomes += [each.then for each in futures if each.then is not None]
        outcomes += [each.after_the_end for each in futures if each.after_the_end is not None]
    now, *rest = with_fewer_workloads(outcomes, frozenset(map(workload_name, keep)))
    then_a, after_a, then_b, after_b = (
        tuple(rest[index * count : (index + 1) * count]) for index in range(4)
    )
    return msgspec.structs.replace(
        head,
        now=msgspec.structs.replace(now, seed=""),
        without=then_a,
        with_=then_b,
        difference=differences(then_a, then_b),
        seconds=moments.then_s,
        override=with_[0].status,
        after_the_end=Futures(
            moments.after_s, after_a, after_b, differences(after_a, after_b), with_[0].status_after
        ),
    )


def _names_nothing(override: SchedulerOverride, objects: StateObjects, future: Future) -> tuple[str, ...]:
    target = named(override.spec.target)
    has_pods = future.now.target != Counts()
    if target is None or target.kind not in WORKLOAD_TARGETS or has_pods:
        return ()
    if workloads_of_target(objects, override):
        return ()
    return (f"There is no {override.spec.target} in the namespace {override.metadata.namespace}.",)


def _bounded(override: Obj, minutes: int) -> tuple[Moments, Obj, tuple[str, ...]]:
    """It ends soon after it was counted, so that its end is seen: by its expiry, as live."""
    spec = override.get("spec") or {}
    lasts_s = (duration_ns(str(spec.get("expiresAfter") or "")) or 0) / SECOND_NS
    then_s = minutes * 60.0
    if not lasts_s:
        return Moments(then_s, then_s + AFTER_S), override, ()
    if lasts_s <= then_s + MARGIN_S:
        counted_s = max(1.0, lasts_s - MARGIN_S)
        note = f"It expires after {lasts_s:g} s: the futures were counted before, after {counted_s:g} s."
        return Moments(counted_s, lasts_s + AFTER_S), override, (note,)
    shorter = {**spec, "expiresAfter": f"{round(then_s + MARGIN_S)}s"}
    note = (
        f"To see its end, it expires in the fork after {minutes} min; live it lasts {spec['expiresAfter']}."
    )
    return Moments(then_s, then_s + MARGIN_S + AFTER_S), {**override, "spec": shorter}, (note,)
