"""Break-glass that nobody closes: its rights end by themselves, what was made under it is named, and somebody
else has to look at it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Committed, Conflict, Outcome
from fathom.kinds.override_review import OVERRIDE_REVIEWS
from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.model.resources import DEPLOYMENTS, NODES
from fathom.sim.checkers.break_glass import BreakGlassEnds
from fathom.sim.checkers.override_twin import DiffersOnlyInTheResidue
from fathom.sim.scenarios import steering
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.expiring import look_at_traces
from fathom.sim.scenarios.people import CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Person, bind_role
from fathom.sim.scenarios.staff import QUIET_S
from fathom.sim.scenarios.steering import (
    OVERRIDES,
    PROCESSES,
    in_zone,
    is_proven,
    override,
    run_cluster,
    status_of,
    workload,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

REVIEWS = Resource("fathom.dev", "v1alpha1", "overridereviews")
WEB, NAME, ROLE = "web", "locked", "fix-anything-in-a-namespace"
MARK = "fathom.dev/break-glass"
LASTS_S = 120
AUTHOR, REVIEWER = "mary", "rita"
KINDS = ("/scheduleroverrides", "/roles", "/rolebindings", "/configmaps")


def checkers() -> Sequence[Checker]:
    return [*steering.checkers(), BreakGlassEnds(), DiffersOnlyInTheResidue(never_broken)]


async def never_broken(world: World) -> None:
    """The same without break-glass."""
    run_cluster(world)
    await _prepare(world)
    await world.sleep(LASTS_S)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


@scenario(Menu(processes=PROCESSES, kinds=KINDS, seconds=LASTS_S, most=6), checkers=checkers)
async def break_glass_left_open(world: World) -> None:
    """Somebody breaks the glass, makes a role and a binding, and leaves it open. The rights end by
    themselves; the role and the binding are named as what is left until somebody deletes them; the review
    stays open until somebody else closes it."""
    run_cluster(world)
    await _prepare(world)
    author, reviewer = Person(world, AUTHOR), Person(world, REVIEWER)
    assert not isinstance(await author.does(_fix), Committed), "she may do it without break-glass"
    broken = override(NAME, {"breakGlassRole": ROLE}, target=f"workload/{WEB}", lasts=f"{LASTS_S}s")
    created = await author.insists(lambda api: api.create(OVERRIDES, "default", broken))
    assert isinstance(created, (Committed, Conflict)), created
    ends_s = world.now_s + LASTS_S
    for work in (_fix, _make_role, _make_binding):
        outcome = await author.insists(work)
        assert isinstance(outcome, (Committed, Conflict)), outcome
    review = _review(world)
    assert not isinstance(await reviewer.does(_closing(review)), Committed), "it was reviewed while it lasted"
    await world.sleep(ends_s - world.now_s + 1.0)  # Times are recorded in whole seconds.
    late = await author.does(_fix)
    assert not isinstance(late, Committed), "her rights outlast the override"
    world.heal()
    await world.until(lambda: _left(world) == _wanted(), within_s=120, what="the roles are named")
    assert not is_proven(status_of(world, NAME)), "the end is proven, and roles are left"
    look_at_traces(world, NAME)
    assert not isinstance(await author.does(_closing(review)), Committed), "she closed her own review"
    gone = await reviewer.does(lambda api: _delete_review(api, review))
    assert not isinstance(gone, Committed), "an open review was deleted"
    assert lookup(_review(world), "status", "phase") == "Open", _review(world)
    closed = await reviewer.insists(_closing(review))
    assert isinstance(closed, Committed), closed
    await world.delete(ROLE_BINDINGS, "left")
    await world.delete(ROLES, "left")
    await world.until(lambda: is_proven(status_of(world, NAME)), within_s=120, what="the end is proven")
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    assert lookup(_review(world), "status", "approver") == REVIEWER, _review(world)


async def _prepare(world: World) -> None:
    """Mary may write overrides, break the glass, and see things; Rita is the administrator."""
    await world.apply(NODES, in_zone("node-a", "a"))
    await world.apply(DEPLOYMENTS, workload(WEB, 1))
    everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    usable = {"name": ROLE, "annotations": {MARK: "true"}}
    await world.apply(CLUSTER_ROLES, {"metadata": usable, "rules": everything})
    verbs = ["create", "get", "list", "break-glass"]
    on_call = [{"verbs": verbs, "apiGroups": ["fathom.dev"], "resources": ["scheduleroverrides"]}]
    # What she may hand on by a role: granting more than she holds is out of reach of break-glass.
    own = [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]
    await world.apply(CLUSTER_ROLES, {"metadata": {"name": "on-call"}, "rules": [*on_call, *own]})
    await bind_role(world, "on-call", AUTHOR)
    await bind_role(world, "cluster-admin", REVIEWER, namespace="")


async def _fix(api: Api) -> Outcome:
    return await api.create(CONFIG_MAPS, "default", {"metadata": {"generateName": "fixed-"}})


async def _make_role(api: Api) -> Outcome:
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}]
    return await api.create(ROLES, "default", {"metadata": {"name": "left"}, "rules": rules})


async def _make_binding(api: Api) -> Outcome:
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "left"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "left"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": AUTHOR}],
    }
    return await api.create(ROLE_BINDINGS, "default", binding)


def _closing(review: Obj) -> Callable[[Api], Awaitable[Outcome]]:
    name = str(metadata(review)["name"])
    decision = {"status": {"approved": True, "findings": "a role was made"}}
    return lambda api: api.patch(REVIEWS, "default", name, decision, subresource="approval")


async def _delete_review(api: Api, review: Obj) -> Outcome:
    return await api.delete(REVIEWS, "default", str(metadata(review)["name"]), uid=uid_of(review))


def _review(world: World) -> Obj:
    reviews = world.list(OVERRIDE_REVIEWS, "default")
    assert len(reviews) == 1, f"one use of break-glass has {len(reviews)} reviews"
    return reviews[0]


def _left(world: World) -> set[tuple[str, str]]:
    return {(each["effect"], each["object"]) for each in status_of(world, NAME).get("residue") or ()}


def _wanted() -> set[tuple[str, str]]:
    return {("role", "Role default/left"), ("role", "RoleBinding default/left")}


SCENARIOS: tuple[Scenario, ...] = (break_glass_left_open,)
