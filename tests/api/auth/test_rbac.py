"""RBAC over a cluster's objects, against a slow twin without index, cache or order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.auth.cluster import (
    RESOURCES,
    Cluster,
    binding,
    cluster_binding,
    cluster_role,
    role,
    rule,
    target,
    to_account,
    to_group,
    to_user,
    user,
)

from fathom.api.auth.authorize import Authorizer, refusal
from fathom.api.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, RbacDecision
from fathom.api.auth.rules import EVERYTHING, RbacRule, ask_of, grants, rules_of
from fathom.api.request import RequestTarget
from fathom.api.resource_cache import REGISTRY
from fathom.api.watch_cache import WatchCache
from fathom.model.body import Body
from fathom.model.objects import Key, Obj
from fathom.model.user import MASTERS, User
from fathom.store.protocol import Entry


def test_a_role_binding_grants_in_its_namespace_and_says_by_what() -> None:
    judge = Authorizer(
        Cluster(role("reader", rule("get list", "pods")), binding("read", "reader", to_user("jane")))
    )
    asked = target("list", "pods")
    reason = 'RBAC: allowed by RoleBinding "read/default" of Role "reader" to User "jane"'
    assert judge.authorize(user("jane"), asked) == RbacDecision(True, reason)
    assert judge.authorize(user("joe"), asked) == RbacDecision(False)
    assert judge.authorize(user("jane"), target("list", "pods", namespace="other")) == RbacDecision(False)
    assert judge.authorize(user("jane"), target("list", "pods", namespace="")) == RbacDecision(False)


def test_a_cluster_role_binding_grants_everywhere_and_to_groups_and_accounts() -> None:
    judge = Authorizer(
        Cluster(
            cluster_role("reader", rule("get", "pods")),
            cluster_binding("all", "reader", to_group("ops"), to_account("bot", "tools")),
        )
    )
    for_group = 'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to Group "ops"'
    assert judge.authorize(user("any", "ops"), target("get", "pods", namespace="x")) == RbacDecision(
        True, for_group
    )
    bot = user("system:serviceaccount:tools:bot")
    for_bot = (
        'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to ServiceAccount "bot/tools"'
    )
    assert judge.authorize(bot, target("get", "pods", namespace="")) == RbacDecision(True, for_bot)


def test_an_account_without_a_namespace_is_of_the_bindings_namespace() -> None:
    judge = Authorizer(
        Cluster(role("r", rule("get", "pods")), binding("b", "r", to_account("bot"), namespace="default"))
    )
    assert judge.authorize(user("system:serviceaccount:default:bot"), target("get", "pods")).allowed
    assert not judge.authorize(user("system:serviceaccount:other:bot"), target("get", "pods")).allowed


def test_resource_names_limit_a_rule_to_those_objects_and_never_grant_a_create() -> None:
    judge = Authorizer(
        Cluster(role("r", rule("get create", "secrets", names="mine")), binding("b", "r", to_user("jane")))
    )
    jane = user("jane")
    for _ in range(2):  # The second round is answered from memory.
        assert judge.authorize(jane, target("get", "secrets", name="mine")).allowed
        assert not judge.authorize(jane, target("get", "secrets", name="other")).allowed
        assert not judge.authorize(jane, target("create", "secrets")).allowed


def test_masters_may_do_everything_even_in_an_empty_cluster() -> None:
    judge = Authorizer(Cluster())
    root = user("root", MASTERS)
    assert judge.authorize(root, target("delete", "nodes", namespace="")).allowed
    assert judge.authorize(root, target("post", "/anything")).allowed
    assert judge.rules_for(root, "default").rules == EVERYTHING


@pytest.mark.parametrize("path", ["/healthz", "/livez/ping", "/readyz", "/version"])
def test_health_and_version_are_for_everybody_before_any_role_exists(path: str) -> None:
    assert Authorizer(Cluster()).authorize(user(), target("get", path)).allowed


@pytest.mark.parametrize("path", ["/healthzzz", "/metrics", "/", "", "/versions", "/api"])
def test_other_paths_are_for_those_who_were_granted_them(path: str) -> None:
    assert not Authorizer(Cluster()).authorize(user(), RequestTarget(verb="get", path=path)).allowed


def test_a_change_of_any_rbac_object_is_felt_by_the_next_request() -> None:
    cluster = Cluster()
    judge, jane, asked = Authorizer(cluster), user("jane"), target("get", "pods")
    assert not judge.authorize(jane, asked).allowed
    cluster.add(binding("b", "r", to_user("jane")))
    missing = RbacDecision(False, 'RBAC: role.rbac.authorization.k8s.io "r" not found')
    assert judge.authorize(jane, asked) == missing
    cluster.add(role("r", rule("get", "pods")))
    assert judge.authorize(jane, asked).allowed
    cluster.add(role("r", rule("list", "pods")))
    assert not judge.authorize(jane, asked).allowed
    granting = cluster_binding("cb", "cr", to_user("jane"))
    cluster.add(cluster_role("cr", rule("*", "*", groups=["*"])), granting)
    assert judge.authorize(jane, asked).allowed
    cluster.remove(granting)
    assert not judge.authorize(jane, asked).allowed


def test_a_remembered_decision_reads_nothing_but_revisions() -> None:
    cluster = Cluster(role("r", rule("get", "pods")), binding("b", "r", to_user("jane")))
    judge = Authorizer(cluster)
    first = judge.authorize(user("jane"), target("get", "pods", name="a"))
    lists = cluster.lists
    for name in "bcd":
        assert judge.authorize(user("jane"), target("get", "pods", name=name)) == first
    assert cluster.lists == lists


def test_the_memory_of_decisions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.api.auth.authorize.REMEMBERED_MAX", 10)
    judge = Authorizer(Cluster())
    for n in range(100):
        judge.authorize(user(), target("get", f"/made-up/{n}"))
    assert len(judge._remembered) <= 10


def test_an_aggregated_role_has_the_rules_of_those_it_gathers_and_not_its_own_picture_of_them() -> None:
    stale = cluster_role("view", rule("delete", "nodes"), gathers="to-view", labels={"to-edit": "true"})
    cluster = Cluster(
        stale,
        cluster_role("edit", gathers="to-edit", labels={"to-view": "true"}),  # A circle: it must end.
        cluster_role("widgets", rule("get", "widgets", groups=["example.com"]), labels={"to-view": "true"}),
        cluster_role("more", rule("patch", "widgets", groups=["example.com"]), labels={"to-edit": "true"}),
        binding("b", "edit", to_user("jane"), kind="ClusterRole"),
    )
    judge, jane = Authorizer(cluster), user("jane")
    assert judge.authorize(jane, target("get", "widgets", group="example.com")).allowed
    assert judge.authorize(jane, target("patch", "widgets", group="example.com")).allowed
    assert not judge.authorize(jane, target("delete", "nodes")).allowed


def test_a_role_of_another_namespace_is_not_reached_by_a_binding() -> None:
    cluster = Cluster(role("r", rule("get", "pods"), namespace="other"), binding("b", "r", to_user("jane")))
    assert not Authorizer(cluster).authorize(user("jane"), target("get", "pods")).allowed


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            target("list", "pods"),
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" '
            'in the namespace "default"',
        ),
        (
            target("update", "deployments/scale", group="apps", name="web"),
            'deployments.apps "web" is forbidden: User "jane" cannot update resource "deployments/scale" '
            'in API group "apps" in the namespace "default"',
        ),
        (
            target("get", "nodes", namespace="", name="n1"),
            'nodes "n1" is forbidden: User "jane" cannot get resource "nodes" in API group "" '
            "at the cluster scope",
        ),
        (target("get", "/metrics"), 'forbidden: User "jane" cannot get path "/metrics"'),
    ],
)
def test_a_refusal_is_worded_as_kube_apiserver_words_it(asked: RequestTarget, message: str) -> None:
    error = refusal(user("jane"), asked)
    assert (error.code, error.reason, error.message) == (403, "Forbidden", message)


def test_rules_for_lists_what_a_user_may_do_and_names_broken_bindings() -> None:
    cluster = Cluster(
        cluster_role("everywhere", rule("get", "nodes")),
        cluster_binding("cb", "everywhere", to_group("ops")),
        role("here", rule("get", "pods")),
        binding("b", "here", to_user("jane"), to_group("ops")),
        binding("gone", "nowhere", to_user("jane")),
    )
    found = Authorizer(cluster).rules_for(user("jane", "ops"), "default")
    assert found.rules == rules_of([rule("get", "nodes"), rule("get", "pods")])
    assert found.errors == ('role.rbac.authorization.k8s.io "nowhere" not found',)


# The twin: every binding is read for every question.

NAMES = st.sampled_from(["a", "b", "c"])
SPACES = st.sampled_from(["one", "two"])
SUBJECTS = st.one_of(
    NAMES.map(to_user), NAMES.map(lambda name: to_group(f"g-{name}")), st.builds(to_account, NAMES, SPACES)
)
RULES = st.one_of(
    st.builds(
        rule,
        st.sampled_from(["get", "list get", "*"]),
        st.sampled_from(["pods", "pods/log", "*/log", "*", "secrets pods"]),
        groups=st.sampled_from([[""], ["apps"], ["*"], ["", "apps"]]),
        names=st.sampled_from(["", "", "x", "x y"]),
    ),
    st.builds(rule, st.just("get"), urls=st.sampled_from(["/a", "/a/*", "*"])),
)
OBJECTS = st.lists(
    st.one_of(
        st.builds(
            lambda name, rules, ns: role(name, *rules, namespace=ns),
            NAMES,
            st.lists(RULES, max_size=3),
            SPACES,
        ),
        st.builds(lambda name, rules: cluster_role(name, *rules), NAMES, st.lists(RULES, max_size=3)),
        st.builds(
            lambda name, ref, subjects, ns, kind: binding(name, ref, *subjects, namespace=ns, kind=kind),
            NAMES,
            NAMES,
            st.lists(SUBJECTS, max_size=3),
            SPACES,
            st.sampled_from(["Role", "ClusterRole"]),
        ),
        st.builds(
            lambda name, ref, subjects: cluster_binding(name, ref, *subjects),
            NAMES,
            NAMES,
            st.lists(SUBJECTS, max_size=3),
        ),
    ),
    max_size=12,
)
USERS = st.one_of(
    st.builds(
        lambda name, groups: user(name, *(f"g-{g}" for g in groups)), NAMES, st.lists(NAMES, max_size=2)
    ),
    st.builds(lambda name, ns: user(f"system:serviceaccount:{ns}:{name}"), NAMES, SPACES),
)
TARGETS = st.one_of(
    st.builds(
        target,
        st.sampled_from(["get", "list", "delete"]),
        st.sampled_from(["pods", "pods/log", "secrets"]),
        group=st.sampled_from(["", "apps"]),
        namespace=st.sampled_from(["one", "two", ""]),
        name=st.sampled_from(["", "x", "y"]),
    ),
    st.builds(target, st.just("get"), st.sampled_from(["/a", "/a/b", "/b"])),
)


def allowed_slowly(cluster: Cluster, who: User, asked: RequestTarget) -> bool:
    for resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
        for seen in cluster.list(resource):
            home = seen.obj["metadata"].get("namespace", "")
            if home and (home != asked.namespace or not asked.plural):
                continue
            if any(_is(subject, who, home) for subject in seen.obj["subjects"]):
                found = _rules(cluster, seen.obj, home)
                if any(grants(one, ask_of(asked)) and _named(one, asked) for one in found):
                    return True
    return False


def _named(one: RbacRule, asked: RequestTarget) -> bool:
    return not one.names or asked.name in one.names


def _is(subject: Obj, who: User, home: str) -> bool:
    if subject["kind"] == "Group":
        return subject["name"] in who.groups
    if subject["kind"] == "User":
        return bool(subject["name"] == who.name)
    return who.name == f"system:serviceaccount:{subject.get('namespace') or home}:{subject['name']}"


def _rules(cluster: Cluster, bound: Obj, home: str) -> tuple[RbacRule, ...]:
    ref = bound["roleRef"]
    cluster_wide = ref["kind"] == "ClusterRole"
    seen = cluster.get(
        CLUSTER_ROLES if cluster_wide else ROLES, Key("" if cluster_wide else home, ref["name"])
    )
    return rules_of(seen.obj["rules"]) if seen else ()


@given(OBJECTS, st.lists(st.tuples(USERS, TARGETS, st.one_of(st.none(), OBJECTS)), min_size=1, max_size=12))
def test_indexed_and_remembered_decisions_equal_those_of_the_slow_twin(
    start: list[Obj], questions: list[tuple[User, RequestTarget, list[Obj] | None]]
) -> None:
    cluster = Cluster(*start)
    judge = Authorizer(cluster)
    for who, asked, changes in questions:
        cluster.add(*(changes or ()))
        assert judge.authorize(who, asked).allowed == allowed_slowly(cluster, who, asked)


def test_a_binding_that_was_deleted_while_the_server_heard_nothing_grants_nothing() -> None:
    """The store compacted what the server had not read, so it loads everything again: the newest revision of
    what is left is the same as before."""
    objs = (
        cluster_role("reader", rule("get", "pods")),
        cluster_binding("jane", "reader", to_user("jane")),
        cluster_binding("joe", "reader", to_user("joe")),
    )
    entries = [
        Entry(f"{REGISTRY}{RESOURCES[obj['kind']]}/{obj['metadata']['name']}", Body(obj), revision, revision)
        for revision, obj in enumerate(objs, 1)
    ]
    cache = WatchCache()
    judge = Authorizer(cache)
    cache.load(entries, 3)
    asked = target("get", "pods")
    assert judge.authorize(user("jane"), asked).allowed
    cache.load([entry for entry in entries if not entry.key.endswith("/jane")], 4)
    assert not judge.authorize(user("jane"), asked).allowed
    assert judge.authorize(user("joe"), asked).allowed
