"""What a new cluster starts with."""

from __future__ import annotations

import copy

import pytest
from tests.api.auth.cluster import Cluster, binding, cluster_role, rule, target, to_user, user

from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.bootstrap import AGGREGATED, bootstrap_objects, plan_bootstrap
from fathom.api.auth.rbac import CLUSTER_ROLES, aggregated
from fathom.api.auth.rules import covers, rules_of
from fathom.api.request import RequestTarget
from fathom.model.accounts import NODES
from fathom.model.objects import Key, Obj, key_of
from fathom.model.user import MASTERS, User
from fathom.model.well_known import AUTO_UPDATE_ANNOTATION

RBAC = "rbac.authorization.k8s.io"
NEW = Cluster(*bootstrap_objects())


def as_a(role: str) -> Authorizer:
    """Jane holds the role in the namespace `default`."""
    return Authorizer(Cluster(*bootstrap_objects(), binding("b", role, to_user("jane"), kind="ClusterRole")))


def named(name: str, kind: str = "ClusterRole") -> Obj:
    (found,) = (one for one in bootstrap_objects() if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


LADDER: list[tuple[RequestTarget, str]] = [
    (target("get", "pods"), "view"),
    (target("get", "pods/log", name="x"), "view"),
    (target("watch", "deployments", group="apps"), "view"),
    (target("get", "deployments/scale", group="apps", name="x"), "view"),
    (target("list", "events"), "view"),
    (target("list", "endpointslices", group="discovery.k8s.io"), "view"),
    (target("get", "namespaces", name="default"), "view"),
    (target("get", "secrets", name="x"), "edit"),
    (target("create", "pods"), "edit"),
    (target("create", "pods/exec", name="x"), "edit"),
    (target("create", "pods/eviction", name="x"), "edit"),
    (target("create", "serviceaccounts/token", name="x"), "edit"),
    (target("impersonate", "serviceaccounts", name="x"), "edit"),
    (target("update", "deployments/scale", group="apps", name="x"), "edit"),
    (target("deletecollection", "jobs", group="batch"), "edit"),
    (target("update", "leases", group="coordination.k8s.io", name="x"), "edit"),
    (target("create", "roles", group=RBAC), "admin"),
    (target("create", "localsubjectaccessreviews", group="authorization.k8s.io"), "admin"),
    (target("create", "resourcequotas"), "nobody"),
    (target("update", "pods/status", name="x"), "nobody"),
    (target("create", "pods/binding", name="x"), "nobody"),
    (target("update", "endpoints", name="x"), "nobody"),
    (target("create", "clusterroles", group=RBAC), "nobody"),
    (target("delete", "namespaces", name="default"), "nobody"),
    (target("get", "nodes", namespace="", name="x"), "nobody"),
    (target("get", "pods", namespace="other"), "nobody"),
]


@pytest.mark.parametrize(("asked", "first"), LADDER)
def test_view_edit_and_admin_each_hold_what_the_one_before_holds_and_more(
    asked: RequestTarget, first: str
) -> None:
    roles = ["view", "edit", "admin"]
    may = [one for one in roles if as_a(one).authorize(user("jane"), asked).allowed]
    assert may == (roles[roles.index(first) :] if first in roles else [])


@pytest.mark.parametrize("name", list(AGGREGATED))
def test_what_an_aggregated_role_shows_is_what_it_gathers(name: str) -> None:
    shown = rules_of(named(name)["rules"])
    gathered = aggregated(named(name), NEW)
    assert (covers(shown, gathered), covers(gathered, shown)) == (True, True)


def test_a_role_that_a_user_labels_for_view_is_held_by_all_three() -> None:
    widgets = cluster_role(
        "widgets",
        rule("get", "widgets", groups=["example.com"]),
        labels={"rbac.authorization.k8s.io/aggregate-to-view": "true"},
    )
    for name in AGGREGATED:
        cluster = Cluster(
            *bootstrap_objects(), widgets, binding("b", name, to_user("jane"), kind="ClusterRole")
        )
        assert (
            Authorizer(cluster).authorize(user("jane"), target("get", "widgets", group="example.com")).allowed
        )


@pytest.mark.parametrize(
    ("who", "asked", "allowed"),
    [
        (user("jane"), target("get", "/api"), True),
        (user("jane"), target("get", "/apis/apps/v1"), True),
        (user("jane"), target("get", "/openapi/v3"), True),
        (user("jane"), target("get", "/metrics"), False),
        (user("jane"), target("create", "selfsubjectaccessreviews", group="authorization.k8s.io"), True),
        (user("jane"), target("create", "selfsubjectreviews", group="authentication.k8s.io"), True),
        (user("jane"), target("create", "subjectaccessreviews", group="authorization.k8s.io"), False),
        (user("jane"), target("list", "pods"), False),
        (user("x", "system:monitoring"), target("get", "/metrics"), True),
        (User("nobody", ("system:unauthenticated",)), target("get", "/version"), True),
        (User("nobody", ("system:unauthenticated",)), target("get", "/api"), False),
        (user("system:kube-scheduler"), target("create", "pods/binding", name="x"), True),
        (user("system:kube-scheduler"), target("create", "pods"), False),
        (user("system:fathom:scheduler"), target("create", "bindingbatches", group="fathom.dev"), True),
        (user("system:fathom:scheduler"), target("watch", "nodes", namespace=""), True),
        (user("system:fathom:scheduler"), target("create", "deployments", group="apps"), False),
        (user("system:fathom:controllers"), target("create", "replicasets", group="apps"), True),
        (user("system:fathom:controllers"), target("deletecollection", "widgets", group="x.com"), False),
        (user("system:fathom:controllers"), target("create", "clusterroles", group=RBAC), False),
        (user("system:fathom:controllers"), target("impersonate", "users", namespace="", name="x"), False),
        (user("system:fathom:controllers"), target("escalate", "clusterroles", group=RBAC), False),
        (user("system:node:n1", NODES), target("watch", "pods", namespace=""), True),
        (user("system:node:n1", NODES), target("get", "secrets", name="x"), False),
        (user("root", MASTERS), target("delete", "nodes", namespace="", name="x"), True),
    ],
)
def test_a_new_cluster_knows_the_usual_users(who: User, asked: RequestTarget, allowed: bool) -> None:
    assert Authorizer(NEW).authorize(who, asked).allowed == allowed


def test_every_binding_names_a_role_that_exists() -> None:
    roles = {one["metadata"]["name"] for one in bootstrap_objects() if one["kind"] == "ClusterRole"}
    bound = {one["roleRef"]["name"] for one in bootstrap_objects() if one["kind"] == "ClusterRoleBinding"}
    assert bound - roles == set()


def test_no_two_objects_have_one_name_and_namespaces_come_first() -> None:
    keys = [(one["kind"], key_of(one)) for one in bootstrap_objects()]
    assert len(keys) == len(set(keys))
    assert [key.name for _, key in keys[:5]] == [
        "default",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "fathom-system",
    ]


def test_a_new_cluster_gets_everything_and_an_old_one_nothing() -> None:
    assert plan_bootstrap(Cluster()) == bootstrap_objects()
    assert plan_bootstrap(NEW) == []


def changed(name: str, **fields: object) -> Cluster:
    return Cluster(*bootstrap_objects(), {**copy.deepcopy(named(name)), **fields})


def test_a_role_that_lost_a_rule_gets_it_back_and_keeps_what_was_added() -> None:
    own = rule("get", "widgets", groups=["example.com"])
    (repaired,) = plan_bootstrap(changed("system:basic-user", rules=[own]))
    assert repaired["rules"] == [own, *named("system:basic-user")["rules"]]
    assert (
        plan_bootstrap(changed("system:basic-user", rules=[*named("system:basic-user")["rules"], own])) == []
    )


def test_a_binding_that_lost_a_subject_gets_it_back() -> None:
    wanted = named("system:discovery", "ClusterRoleBinding")
    cluster = Cluster(*bootstrap_objects(), {**wanted, "subjects": [to_user("jane")]})
    assert plan_bootstrap(cluster) == [{**wanted, "subjects": [to_user("jane"), *wanted["subjects"]]}]


def test_an_object_whose_owner_said_so_is_left_alone() -> None:
    meta = {**named("system:basic-user")["metadata"], "annotations": {AUTO_UPDATE_ANNOTATION: "false"}}
    assert plan_bootstrap(changed("system:basic-user", rules=[], metadata=meta)) == []


def test_reading_the_table_twice_gives_separate_objects() -> None:
    first = bootstrap_objects()
    first[-1]["spec"].clear()
    assert bootstrap_objects() != first
    assert NEW.get(CLUSTER_ROLES, Key("", "admin")) is not None
