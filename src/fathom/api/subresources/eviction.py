"""`pods/eviction`: a deletion that respects the pod's disruption budget.

The budget's count of allowed disruptions is decremented with a compare-and-swap before the pod is deleted, so
that two evictions cannot both use the last one.
"""

from __future__ import annotations

from functools import partial

import msgspec

from fathom.api.core import Call, Core
from fathom.api.ledger.accounts import key_in_store
from fathom.api.removal import DeleteOptions, check_options, check_preconditions
from fathom.api.request import Response
from fathom.api.verbs import bodies
from fathom.api.verbs.get import read
from fathom.api.writing import Check, Written, remove, update
from fathom.kinds import shape
from fathom.kinds.override_status import MADE_BY, has_ended
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, cordons, override_active
from fathom.model.accounts import is_own
from fathom.model.body import encode_json
from fathom.model.conditions import (
    DISRUPTION_TARGET,
    EVICTED_FOR,
    conditions_of,
    find_condition,
    set_condition,
)
from fathom.model.errors import ApiError, bad_request, conflict, internal
from fathom.model.objects import Key, Obj, labels_of, lookup, metadata
from fathom.model.resource_names import BUDGETS
from fathom.model.selectors import LabelSelector
from fathom.store.protocol import Expect

EVICTION = ("policy", "v1", "Eviction")
DISRUPTED_PODS_MAX = 2000  # kube-apiserver's bound on a budget's evicted pods whose deletion it has not seen.


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    annotations: dict[str, str] | None = None


class _Eviction(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Meta = _Meta()
    delete_options: DeleteOptions = DeleteOptions()


async def evict(core: Core, call: Call) -> Response:
    bodies.check_options(call.request)
    raw = bodies.as_json(core, call, EVICTION)
    try:
        eviction = msgspec.json.decode(raw or b"{}", type=_Eviction)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"the body could not be read as an Eviction: {error}") from None
    if eviction.metadata.name not in {"", call.target.name}:
        raise bad_request("name in URL does not match name in Eviction object")
    check_options(eviction.delete_options)
    entry, options = await read(core, call), eviction.delete_options
    pod = entry.body.obj
    check_preconditions(pod, options, resource=call.kind.resource, revision=entry.revision)
    budget = _budget_of(core, call, pod)
    dry = call.dry_run or bool(options.dry_run)
    free = budget is not None and goes_free(pod, budget)
    charged, uncharged = (None, budget) if free else (budget, None)
    if dry:
        if charged is not None:
            take_disruption(charged, str(metadata(pod)["name"]), now="")
        written = await remove(core, call, options)
    else:
        if charged is not None:
            await _take(core, call, str(metadata(charged)["name"]))
        written = await _remove_charged(core, call, options, uncharged, by=_override_of(call, eviction))
    # As of a deletion: the revision is that of the commit.
    revision = metadata(written.obj).get("resourceVersion")
    meta = {"resourceVersion": revision} if revision and not dry else {}
    success = {"kind": "Status", "apiVersion": "v1", "metadata": meta, "status": "Success", "code": 201}
    return Response(status=201, body=encode_json(success))


def _override_of(call: Call, eviction: _Eviction) -> str:
    """The override that asks for the eviction, NAMESPACE/NAME@UID; only the override controller says so."""
    annotations = eviction.metadata.annotations or {}
    return annotations.get(MADE_BY, "") if is_own(call.caller.user) else ""


class _MustBeCharged(Exception):
    """The pod disrupts something by now, and its budget has not been charged."""


async def _remove_charged(
    core: Core, call: Call, options: DeleteOptions, uncharged: Obj | None, *, by: str
) -> Written:
    """Mark the pod, and delete it. `uncharged`: its budget, if that was not charged.
    1. A pod has not started, so nothing is charged. 2. It becomes ready. 3. It is evicted. So it is judged
    again by each of the two commits."""
    if uncharged is None:
        return await _mark_and_remove(core, call, options, None, by=by)
    budget = uncharged

    def check(pod: Obj) -> None:
        if not goes_free(pod, budget):
            raise _MustBeCharged

    try:
        return await _mark_and_remove(core, call, options, check, by=by)
    except _MustBeCharged:
        await _take(core, call, str(metadata(budget)["name"]))
        return await _mark_and_remove(core, call, options, None, by=by)


async def _mark_and_remove(
    core: Core, call: Call, options: DeleteOptions, check: Check | None, *, by: str
) -> Written:
    expected = await _mark(core, call, options, check, by=by)
    return await remove(core, call, expected, check=check)


async def _mark(
    core: Core, call: Call, options: DeleteOptions, check: Check | None, *, by: str
) -> DeleteOptions:
    """Mark the pod, checking the preconditions now; the deletion then expects the pod as it is after the
    mark."""
    now = core.moment(call.caller.user).now

    def change(pod: Obj) -> Obj:
        revision = int(metadata(pod).get("resourceVersion") or 0)
        check_preconditions(pod, options, resource=call.kind.resource, revision=revision)
        if check is not None:
            check(pod)
        return marked(pod, now=now, by=by)

    bound = partial(_asked_for, core, by) if by else None
    written = await update(core, call, change, subresource="status", bound=bound)
    wanted = options.preconditions
    if wanted is None or wanted.resource_version is None or written.entry is None:
        return options
    wanted = msgspec.structs.replace(wanted, resource_version=str(written.entry.revision))
    return msgspec.structs.replace(options, preconditions=wanted)


def _asked_for(core: Core, by: str, pod: Obj) -> tuple[Expect, ...]:
    """What the commit expects so that no pod is evicted for an override that does not ask for it any more:
    1. The controller decides to evict a pod. 2. The override ends, or an edit voids its approval.
    3. The eviction arrives. The override is judged now, and the commit expects it as it was judged."""
    name, _, uid = by.partition("@")
    key = Key(*name.split("/", 1)) if "/" in name else Key("", name)
    seen = core.cache.get(OVERRIDES, key)
    override = None if seen is None else shape.read(SchedulerOverride, seen.obj)
    if seen is None or override is None or override.metadata.uid != uid or not _asks(core, override, pod):
        raise conflict("pods", str(metadata(pod)["name"]), f"override {name} does not ask for its eviction")
    return (Expect(key_in_store(OVERRIDES, key), seen.revision),)


def _asks(core: Core, override: SchedulerOverride, pod: Obj) -> bool:
    """While it is in force, for pods on nodes that it drains; after its end, for pods that it lets go."""
    now_ns = core.outside.clock.now_ns()
    if has_ended(override, now_ns):
        return override.spec.on_end == "move"
    node = str(lookup(pod, "spec", "nodeName") or "")
    seen = core.cache.get("nodes", Key("", node))
    labels = labels_of(seen.obj) if seen is not None else {}
    return (
        override.spec.changes.drain and override_active(override, now_ns) and cordons(override, node, labels)
    )


def marked(pod: Obj, *, now: str, by: str = "") -> Obj:
    """The pod with the reason in a condition: a Job's failure policy may ignore such an end."""
    why = "Eviction API: evicting" + (f", as override {by} asks" if by else "")
    status = pod.get("status") or {}
    conditions = set_condition(
        status.get("conditions") or (), type=DISRUPTION_TARGET, status="True",
        reason="EvictionByEvictionAPI", message=why, now=now,
    )  # fmt: skip
    if by:
        conditions = set_condition(conditions, type=EVICTED_FOR, status="True", reason=by, now=now)
    return {**pod, "status": {**status, "conditions": conditions}}


def goes_free(pod: Obj, budget: Obj) -> bool:
    """Its eviction is not charged to the budget."""
    return is_exempt(pod) or may_go_unhealthy(pod, budget)


def is_exempt(pod: Obj) -> bool:
    """A pod that is finished, not yet running or already being deleted disrupts nothing."""
    finished = lookup(pod, "status", "phase") in {"Succeeded", "Failed", "Pending"}
    return finished or bool(metadata(pod).get("deletionTimestamp"))


def may_go_unhealthy(pod: Obj, budget: Obj) -> bool:
    """No budget counts a pod that is not ready: it may be evicted if the budget's policy says so, or while
    there are as many healthy pods as desired."""
    ready = find_condition(conditions_of(pod), "Ready")
    if ready is not None and ready.get("status") == "True":
        return False
    if lookup(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy") or 0
    return 0 < desired <= (status.get("currentHealthy") or 0)


def _budget_of(core: Core, call: Call, pod: Obj) -> Obj | None:
    budgets = [seen.obj for seen in core.cache.list(BUDGETS, call.namespace) if _covers(seen.obj, pod)]
    if len(budgets) > 1:
        names = ", ".join(sorted(str(metadata(budget)["name"]) for budget in budgets))
        why = "more than one PodDisruptionBudget, which the eviction subresource does not support"
        raise internal(f"This pod has {why}: {names}")
    return budgets[0] if budgets else None


def _covers(budget: Obj, pod: Obj) -> bool:
    selector = lookup(budget, "spec", "selector")
    return selector is not None and LabelSelector.from_object(selector).matches(labels_of(pod))


async def _take(core: Core, call: Call, name: str) -> None:
    kind = core.registry.by_resource(BUDGETS)
    if kind is None:
        return
    target = msgspec.structs.replace(call.target, plural=kind.plural, group=kind.group, name=name)
    on_budget = msgspec.structs.replace(call, kind=kind, target=target)
    pod, now = call.target.name, core.moment(call.caller.user).now

    def decremented(budget: Obj) -> Obj:
        return take_disruption(budget, pod, now=now)

    await update(core, on_budget, decremented, subresource="status")


def take_disruption(budget: Obj, pod: str, *, now: str) -> Obj:
    """The budget with one disruption less; raises a 429 with the reason if none is left."""
    status = budget.get("status") or {}
    observed = status.get("observedGeneration") or 0
    if observed < (metadata(budget).get("generation") or 0):
        raise _refused(
            budget,
            f"The disruption budget {metadata(budget)['name']} is still being processed by the server.",
            retry_after_s=10,
        )
    if len(status.get("disruptedPods") or {}) > DISRUPTED_PODS_MAX:
        raise _refused(budget, "too many evictions not confirmed by PDB controller")
    allowed = status.get("disruptionsAllowed") or 0
    if allowed <= 0:
        raise _refused(budget, _why_none(budget))
    disrupted = {**(status.get("disruptedPods") or {}), pod: now}
    return {**budget, "status": {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}}


def _why_none(budget: Obj) -> str:
    """If the controller failed to count, its numbers mean nothing."""
    status, start = budget.get("status") or {}, f"The disruption budget {metadata(budget)['name']}"
    condition = find_condition(status.get("conditions") or (), "DisruptionAllowed") or {}
    if condition.get("reason") == "SyncFailed" and condition.get("message"):
        return (
            f"{start} does not allow evicting pods currently because it failed sync: {condition['message']}"
        )
    healthy, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    if healthy > desired:
        return f"{start} does not allow evicting pods currently"
    return f"{start} needs {desired} healthy pods and has {healthy} currently"


def _refused(budget: Obj, why: str, *, retry_after_s: int | None = None) -> ApiError:
    cause = {"reason": "DisruptionBudget", "message": why}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiError(429, "TooManyRequests", message, details={"causes": [cause]}, retry_after_s=retry_after_s)
