"""From a state and an override, or a run of a runbook, to the answer of a preview."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fathom.client.api import own_resource
from fathom.kinds.override_changes import WORKLOAD_TARGETS
from fathom.kinds.preview_answer import (
    FORK,
    Counts,
    Futures,
    Preview,
    preview_token,
    tried_hash,
)
from fathom.kinds.scheduler_override import DEFINITION, SchedulerOverride, named
from fathom.kinds.shape import read
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS, duration_ns
from fathom.model.user import User
from fathom.sim.fork_state import ClusterState
from fathom.sim.preview.counting import IsTarget, target_of, workload_name
from fathom.sim.preview.difference import differences, with_fewer_workloads
from fathom.sim.preview.futures import Attempt, Future, Moments, TriedObject, future
from fathom.sim.preview.not_modelled import NOT_MODELLED
from fathom.sim.preview.touched import (
    StateObjects,
    places_of_target,
    touched_by,
    workloads_of_target,
)
from fathom.sim.preview.tried_run import TriedRun

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
    head = _head(state, override, minutes)
    pairs = _pairs(state, seeds, moments, target_of(shape), attempt_of=lambda seed: tried, has_time=has_time)
    if pairs.with_[0].refused is not None:
        return _refused(head, pairs)
    objects = StateObjects(state)
    counted = _counted(head, moments, pairs, keep=workloads_of_target(objects, shape))
    return msgspec.structs.replace(
        counted,
        override=pairs.with_[0].status,
        notes=(*notes, *_names_nothing(shape, objects, pairs.without[0]), *pairs.notes),
        touched=touched_by(objects, places_of_target(objects, shape), pairs.without, pairs.with_),
    )


def preview_run(
    state: ClusterState,
    run: Obj,
    *,
    user: User,
    minutes: int,
    seeds: Sequence[str],
    has_time: Callable[[int], bool] = lambda done: True,
) -> Preview:
    """All steps of a run, as its author would carry them out. Raises ForkFailed, and ValueError for what is
    no RunbookRun."""
    head = _head(state, run, minutes)
    attempts = {seed: TriedRun(seed, run, user) for seed in seeds}
    moments = Moments(minutes * 60.0, minutes * 60.0)
    pairs = _pairs(state, seeds, moments, _every_pod, attempt_of=attempts.__getitem__, has_time=has_time)
    if pairs.with_[0].refused is not None:
        return _refused(head, pairs)
    tried = [(attempts[each.now.seed], each.status) for each in pairs.with_]
    return msgspec.structs.replace(
        _counted(head, moments, pairs, keep=[]),
        after_the_end=None,
        runs=tuple(
            attempt.future(status, with_lines=not index) for index, (attempt, status) in enumerate(tried)
        ),
        notes=(*pairs.notes, *dict.fromkeys(note for attempt, _ in tried for note in attempt.notes)),
        touched=touched_by(StateObjects(state), (), pairs.without, pairs.with_),
    )


def _every_pod(pod: Obj, node_labels: Mapping[str, str]) -> bool:
    return True


class _Pairs(msgspec.Struct, frozen=True):
    """Two futures for each seed that there was time for."""

    without: list[Future]
    with_: list[Future]
    notes: tuple[str, ...]


def _pairs(
    state: ClusterState,
    seeds: Sequence[str],
    moments: Moments,
    is_target: IsTarget,
    *,
    attempt_of: Callable[[str], Attempt],
    has_time: Callable[[int], bool],
) -> _Pairs:
    """Ends with the first fork where what is tried is refused there."""
    without: list[Future] = []
    with_: list[Future] = []
    late: tuple[str, ...] = ()
    for done, seed in enumerate(seeds):
        if done and not has_time(done):
            late = (f"{done} of {len(seeds)} seeds were run: there was no time for more.",)
            break
        with_.append(future(state, seed, moments, is_target, attempt_of(seed)))
        if with_[0].refused is not None:
            break
        without.append(future(state, seed, moments, is_target, None))
    return _Pairs(without, with_, (*late, *dict.fromkeys(note for each in with_ for note in each.notes)))


def _head(state: ClusterState, tried: Obj, minutes: int) -> Preview:
    revision, hash_ = state.contents.revision, tried_hash(tried)
    return Preview(
        token=preview_token(revision, hash_),
        revision=revision,
        hash=hash_,
        method=FORK,
        minutes=minutes,
        not_modelled=NOT_MODELLED,
    )


def _refused(head: Preview, pairs: _Pairs) -> Preview:
    first = pairs.with_[0]
    now = msgspec.structs.replace(first.now, replicas={}, seed="")
    return msgspec.structs.replace(head, now=now, refused=first.refused, seeds=(first.now.seed,))


def _counted(head: Preview, moments: Moments, pairs: _Pairs, *, keep: list[Obj]) -> Preview:
    """`keep`: workloads whose replicas are told, though they may not differ."""
    without, with_ = pairs.without, pairs.with_
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
        seeds=tuple(each.now.seed for each in with_),
        now=msgspec.structs.replace(now, seed=""),
        without=then_a,
        with_=then_b,
        difference=differences(then_a, then_b),
        seconds=moments.then_s,
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
