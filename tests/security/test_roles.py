"""What fathom's own accounts, and people who deploy, may do with fathom's kinds: by name, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.auth.cluster import Cluster, target
from tests.api.harness import JANE, Api, tell
from tests.security.people import (
    CONTROLLERS,
    GATEWAY,
    OWN,
    RBAC,
    SCHEDULER,
    grant,
    grant_rule,
    introduce,
    lead,
    namespaces,
    own,
    pod,
)

from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.bootstrap import bootstrap_objects, plan_bootstrap
from fathom.api.verbs.update import CREATED_BY_PUT
from fathom.control.process import load_controller
from fathom.control.watches import WatchedKind
from fathom.controllers import all as all_controllers
from fathom.model.objects import Obj
from fathom.model.user import User
from fathom.schedule.loop.watched_kinds import KINDS

READS = ("get", "list", "watch")


def ours() -> dict[str, list[Obj]]:
    """Role -> its rules, of our own accounts."""
    return {
        one["metadata"]["name"]: one["rules"]
        for one in bootstrap_objects()
        if one["kind"] == "ClusterRole" and one["metadata"]["name"].startswith("system:fathom:")
    }


def test_our_own_accounts_hold_named_verbs_on_named_resources() -> None:
    assert {"system:fathom:scheduler", "system:fathom:controllers"} <= set(ours())
    for role, rules in ours().items():
        for rule in rules:
            for field in ("verbs", "apiGroups", "resources"):
                assert not any("*" in word for word in rule.get(field, ())), (role, rule)


@pytest.mark.parametrize(
    ("who", "verb", "path"),
    [
        (SCHEDULER, "GET", "/api/v1/secrets"),
        (SCHEDULER, "GET", "/api/v1/configmaps"),
        (SCHEDULER, "DELETE", f"{OWN}/tenantquotas/x"),
        (SCHEDULER, "POST", f"{OWN}/namespaces/default/scheduleroverrides"),
        (SCHEDULER, "POST", f"{OWN}/namespaces/default/repairproposals"),
        (SCHEDULER, "PATCH", "/api/v1/namespaces/default/pods/x"),
        (CONTROLLERS, "GET", "/api/v1/secrets"),
        (CONTROLLERS, "GET", "/api/v1/configmaps"),
        (CONTROLLERS, "GET", "/apis/coordination.k8s.io/v1/leases"),
        (CONTROLLERS, "DELETE", "/api/v1/namespaces/default/secrets/x"),
        (CONTROLLERS, "DELETE", f"{RBAC}/clusterroles/x"),
        (CONTROLLERS, "DELETE", "/api/v1/namespaces/default"),
        (CONTROLLERS, "DELETE", f"{OWN}/capacityclasses/x"),
        (CONTROLLERS, "POST", f"{OWN}/namespaces/default/scheduleroverrides"),
        (CONTROLLERS, "PATCH", f"{OWN}/namespaces/default/repairproposals/x/approval"),
        (CONTROLLERS, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token"),
        (CONTROLLERS, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"),
        ("system:node:n1", "GET", f"{OWN}/tenantquotas"),
        ("system:node:n1", "GET", f"{OWN}/repairproposals"),
    ],
)
def test_our_accounts_are_refused_what_is_not_their_work(
    who: str, verb: str, path: str, tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        groups = ("system:nodes",) if who.startswith("system:node:") else ()
        introduce(api, User(who, groups))
        answer = await api.call(verb, path, None if verb == "GET" else {}, token=who)
        assert (answer.status, answer.reason) == (403, "Forbidden"), answer.obj
        assert f'User "{who}" cannot' in answer.obj["message"], answer.obj

    tell(story, tmp_path)


STEERED: dict[str, Obj] = {
    "scheduleroverrides": {
        "target": "workload/x", "scope": "cluster", "reason": "r", "expiresAfter": "5m",
        "changes": {"pauseRollout": True},
    },
    "trafficroutes": {"service": "x", "routes": [{"zone": "a", "weight": 1}]},
}  # fmt: skip
OBSERVED: dict[str, Obj] = {
    "workloadprogresses": {"workload": {"kind": "Deployment", "name": "x"}},
    "reservations": {"workload": {"uid": "1"}, "intent": "i"},
    "repairproposals": {
        "subject": {"kind": "Pod", "name": "x", "namespace": "mine"}, "problem": "p", "action": "Delete",
    },
}  # fmt: skip


@pytest.mark.parametrize("role", ["edit", "admin"])
def test_what_status_shows_is_written_by_who_observes_it(role: str, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await namespaces(api, "mine")
        await grant(api, "jane", role, "mine")
        for plural, spec in {**STEERED, **OBSERVED}.items():
            path = f"{OWN}/namespaces/mine/{plural}"
            made = await api.post(path, own(plural, "x", spec), token=JANE)
            may = role == "admin" and plural in STEERED
            assert made.status == (201 if may else 403), (plural, made.obj)
            for verb, body in (("PATCH", {"status": {}}), ("PUT", {"metadata": {"name": "x"}})):
                headers = {"content-type": "application/merge-patch+json"} if verb == "PATCH" else None
                told = await api.call(verb, f"{path}/x/status", body, token=JANE, headers=headers)
                assert told.status == 403, (plural, told.obj)
            assert (await api.get(path, token=JANE)).status == 200

    tell(story, tmp_path)


def test_a_cluster_of_before_loses_the_rights_that_were_too_many() -> None:
    """Whoever has a data directory from then is as safe as who begins today."""
    everything = {"verbs": ["*"], "apiGroups": ["fathom.dev"], "resources": ["*"]}
    writes = ["create", "delete", "deletecollection", "patch", "update"]
    forging = {
        "verbs": writes,
        "apiGroups": ["fathom.dev"],
        "resources": ["reservations", "trafficroutes", "workloadprogresses"],
    }
    proposing = {**forging, "resources": ["repairproposals", "scheduleroverrides"]}
    mine = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}
    old = {
        "system:fathom:scheduler": everything,
        "system:fathom:controllers": everything,
        "system:aggregate-to-edit": forging,
        "system:aggregate-to-admin": proposing,
    }
    objects = []
    for one in bootstrap_objects():
        extra = old.get(one["metadata"]["name"]) if one["kind"] == "ClusterRole" else None
        objects.append({**one, "rules": [*one["rules"], extra, mine]} if extra else one)
    planned = {one["metadata"]["name"]: one["rules"] for one in plan_bootstrap(Cluster(*objects))}
    assert set(planned) == set(old)
    for name, rules in planned.items():
        assert old[name] not in rules
        assert mine in rules or name.startswith("system:fathom:")


def test_the_controllers_do_what_is_their_work(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        introduce(api, User(CONTROLLERS))
        fence = await lead(api, CONTROLLERS, "fathom-system/controllers")
        progress = own("workloadprogresses", "x", OBSERVED["workloadprogresses"])
        path = f"{OWN}/namespaces/default/workloadprogresses"
        assert (await api.post(path, progress, token=CONTROLLERS, headers=fence)).status == 201
        other = {"fathom-fence": fence["fathom-fence"].rpartition("/")[0] + "/99"}
        assert (await api.delete(f"{path}/x", token=CONTROLLERS, headers=other)).status == 409
        assert (await api.delete(f"{path}/x", token=CONTROLLERS)).status == 403

    tell(story, tmp_path)


def test_the_controllers_may_scale_what_a_definition_gives_a_scale_and_only_while_it_is_there(
    tmp_path: Path,
) -> None:
    async def story(api: Api) -> None:
        introduce(api, User(CONTROLLERS))
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for plural, kind, parts in (
            (
                "widgets",
                "Widget",
                {"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
            ),
            ("gadgets", "Gadget", {"status": {}}),
        ):
            assert (await api.post(definitions, definition(plural, kind, parts))).status == 201
        rules = [{"verbs": ["get", "patch"], "apiGroups": ["example.com"], "resources": ["widgets/scale"]}]

        async def granted(wanted: list[Obj]) -> bool:
            role = await api.get(f"{RBAC}/clusterroles/system:fathom:scale")
            return bool((role.obj.get("rules") or []) == wanted)

        await api.eventually(lambda: granted(rules))
        widgets = "/apis/example.com/v1/namespaces/default/widgets"
        assert (await api.get(f"{widgets}/x/scale", token=CONTROLLERS)).status == 404
        assert (await api.get(f"{widgets}/x", token=CONTROLLERS)).status == 403
        await api.delete(f"{definitions}/widgets.example.com")
        await api.eventually(lambda: granted([]))

    tell(story, tmp_path)


def definition(plural: str, kind: str, subresources: Obj) -> Obj:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": subresources}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def followed(account: str) -> list[WatchedKind]:
    """What a process of ours watches, as its own code has it."""
    if account == SCHEDULER:
        return list(KINDS)
    named = [load_controller(name) for name in (*all_controllers.CONTROLLERS, all_controllers.SUMMARY)]
    return [watch.kind for one in named for watch in one.watches]


@pytest.mark.parametrize("account", [SCHEDULER, CONTROLLERS])
def test_our_accounts_may_read_all_that_their_code_watches(account: str) -> None:
    authorizer = Authorizer(Cluster(*bootstrap_objects()))
    for kind in followed(account):
        for verb in READS:
            plural, group = kind.resource.plural, kind.resource.group
            asked = target(verb, plural, group=group, namespace=kind.namespace)
            assert authorizer.authorize(User(account), asked).allowed, (verb, kind)


def test_the_gateway_says_of_a_pod_whether_it_reaches_it_and_nothing_else(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        introduce(api, User(GATEWAY))
        pods = "/api/v1/namespaces/default/pods"
        assert (await api.post(pods, pod("p", nodeName="n1"))).status == 201
        serving = {"status": {"conditions": [{"type": "fathom.dev/Serving", "status": "True"}]}}
        said = await api.patch(f"{pods}/p/status", serving, kind="strategic", token=GATEWAY)
        assert said.status == 200, said.obj
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        for forged in ({"status": {"phase": "Failed"}}, ready, {"status": {"podIP": "10.0.0.9"}}):
            answer = await api.patch(f"{pods}/p/status", forged, kind="strategic", token=GATEWAY)
            assert answer.status == 403, answer.obj

    tell(story, tmp_path)


ROLE = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "empty"}}
# What an object of the kind must have.
FIELDS: dict[str, Obj] = {
    "RoleBinding": ROLE,
    "ClusterRoleBinding": ROLE,
    "Event": {"involvedObject": {"namespace": "default"}},
    "LimitRange": {"spec": {"limits": []}},
}


@pytest.mark.parametrize("resource", sorted(CREATED_BY_PUT))
def test_who_may_update_and_not_create_makes_nothing_by_a_put(resource: str, tmp_path: Path) -> None:
    """As in kube-apiserver, which creates such objects by a PUT too."""

    async def story(api: Api) -> None:
        kind = api.core.registry.by_resource(resource)
        introduce(api, User("eve"), User("mallory"))
        rule = {"apiGroups": [kind.group], "resources": [kind.plural]}
        await grant_rule(api, "eve", "updates", {**rule, "verbs": ["update", "patch"]})
        await grant_rule(api, "mallory", "creates", {**rule, "verbs": ["update", "create"]})
        await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "empty"}, "rules": []})
        root = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
        place = f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
        obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"name": "made"}}
        obj |= FIELDS.get(kind.kind, {})
        made = await api.put(f"{place}/made", obj, token="eve")
        assert (made.status, made.reason) == (403, "Forbidden"), made.obj
        assert f'User "eve" cannot create resource "{kind.plural}"' in made.obj["message"]
        assert (await api.get(f"{place}/made")).status == 404
        made = await api.put(f"{place}/made", obj, token="mallory")
        assert made.status == 201, made.obj
        labelled = {**obj, "metadata": {"name": "made", "labels": {"a": "b"}}}
        assert (await api.put(f"{place}/made", labelled, token="eve")).status == 200

    tell(story, tmp_path)
