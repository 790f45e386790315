"""Rules: what they match and what they cover, against a twin that takes every rule apart."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.auth.cluster import rule, target

from fathom.api.auth import rules
from fathom.api.auth.rules import RbacRule, ask_of, covers, describe_missing, grants, rules_of, uncovered
from fathom.model.objects import Obj

VERBS = st.sampled_from(["get", "list", "create", "*"])
GROUPS = st.sampled_from(["", "apps", "*"])
RESOURCES = st.sampled_from(
    ["pods", "pods/log", "pods/status", "deployments", "deployments/status", "*/status", "*"]
)
NAMES = st.sampled_from(["a", "b"])
URLS = st.sampled_from(["/x", "/x/y", "/x/*", "/x*", "*"])


def some(values: st.SearchStrategy[str], low: int = 1) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(values, min_size=low, max_size=3).map(tuple)


RULES = st.one_of(
    st.builds(
        RbacRule, verbs=some(VERBS), groups=some(GROUPS), resources=some(RESOURCES), names=some(NAMES, 0)
    ),
    st.builds(RbacRule, verbs=some(VERBS), urls=some(URLS)),
)


def matches_slowly(one: RbacRule, verb: str, group: str, resource: str) -> bool:
    sub = resource.partition("/")[2]
    accepted = {"*", resource} | ({f"*/{sub}"} if sub else set())
    return bool({"*", verb} & {*one.verbs} and {"*", group} & {*one.groups} and accepted & {*one.resources})


@given(RULES, VERBS, GROUPS, RESOURCES)
def test_a_rule_grants_what_a_plain_reading_of_it_says(
    one: RbacRule, verb: str, group: str, resource: str
) -> None:
    ask = ask_of(target(verb, resource, group=group))
    assert grants(one, ask) == matches_slowly(one, verb, group, resource)


@pytest.mark.parametrize(
    ("resources", "asked", "granted"),
    [
        ("pods", "pods", True),
        ("pods", "pods/log", False),
        ("pods/log", "pods", False),
        ("pods/*", "pods/log", False),
        ("*/scale", "deployments/scale", True),
        ("*/scale", "deployments", False),
        ("*/scale", "deployments/status", False),
        ("*", "pods/log", True),
        ("*", "pods", True),
    ],
)
def test_a_subresource_is_named_by_itself_or_by_a_star(resources: str, asked: str, granted: bool) -> None:
    (one,) = rules_of([rule("get", resources)])
    assert grants(one, ask_of(target("get", asked))) == granted


@pytest.mark.parametrize(
    ("held", "wanted", "covered"),
    [
        (rule("get", "pods", names="a b"), rule("get", "pods", names="a"), True),
        (rule("get", "pods", names="a"), rule("get", "pods", names="a b"), False),
        (rule("get", "pods", names="a"), rule("get", "pods"), False),
        (rule("get", "pods"), rule("get", "pods", names="a"), True),
        (rule("get", "*/scale"), rule("get", "pods/scale"), True),
        (rule("get", "*/scale"), rule("get", "pods"), False),
        (rule("get", "pods"), rule("get", "pods/scale"), False),
        (rule("get", "pods"), rule("*", "pods"), False),
        (rule("*", "*", groups=["*"]), rule("x", "y/z", groups=["g"], names="n"), True),
        (rule("*", "*", groups=["*"]), rule("get", urls="/x"), False),
        (rule("get", urls="/x/*"), rule("get", urls="/x/y/*"), True),
        (rule("get", urls="/x/*"), rule("get", urls="/x"), False),
    ],
)
def test_a_rule_covers_what_it_could_not_be_told_from(held: Obj, wanted: Obj, covered: bool) -> None:
    assert covers(rules_of([held]), rules_of([wanted])) == covered


@pytest.mark.parametrize(
    ("url", "path", "granted"),
    [
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/etcd", False),
        ("/healthz/*", "/healthz/etcd", True),
        ("/healthz/*", "/healthz", False),
        ("/logs*", "/logsomething", True),
        ("*", "/anything", True),
        ("/metrics", "/Metrics", False),
    ],
)
def test_a_path_rule_matches_exactly_or_by_a_trailing_star(url: str, path: str, granted: bool) -> None:
    (one,) = rules_of([rule("get", urls=url)])
    assert grants(one, ask_of(target("get", path))) == granted


@pytest.mark.parametrize("raw", [None, "x", [None], [7], [{}], [{"verbs": None}], [{"verbs": "get"}]])
def test_what_has_not_the_shape_of_a_rule_grants_nothing(raw: object) -> None:
    asks = [ask_of(target("get", "pods")), ask_of(target("get", "/healthz"))]
    assert not any(grants(one, ask) for one in rules_of(raw) for ask in asks)


def singles(one: RbacRule) -> list[RbacRule]:
    """Every permission of a rule, each as a rule of its own."""
    found = [RbacRule(verbs=(verb,), urls=(url,)) for verb, url in product(one.verbs, one.urls)]
    for verb, group, resource in product(one.verbs, one.groups, one.resources):
        for name in one.names or ("",):
            found.append(RbacRule((verb,), (group,), (resource,), (name,) if name else ()))
    return found


def held_slowly(owner: list[RbacRule], single: RbacRule) -> bool:
    for own in owner:
        if not {"*", single.verbs[0]} & {*own.verbs}:
            continue
        if single.urls:
            if any(
                u == single.urls[0] or (u[-1] == "*" and single.urls[0].startswith(u[:-1])) for u in own.urls
            ):
                return True
            continue
        sub = single.resources[0].partition("/")[2]
        accepted = {"*", single.resources[0]} | ({f"*/{sub}"} if sub else set())
        named = not own.names or (single.names and single.names[0] in own.names)
        if {"*", single.groups[0]} & {*own.groups} and accepted & {*own.resources} and named:
            return True
    return False


@given(st.lists(RULES, max_size=4), st.lists(RULES, max_size=3))
def test_rules_are_covered_exactly_when_each_single_permission_is_held(
    owner: list[RbacRule], wanted: list[RbacRule]
) -> None:
    missing = {single for one in wanted for single in singles(one) if not held_slowly(owner, single)}
    found = uncovered(owner, wanted)
    assert found is not None
    assert {single for one in found for single in singles(one)} == missing
    assert covers(owner, wanted) == (not missing)


def test_missing_permissions_are_listed_one_line_per_resource_with_their_verbs_together() -> None:
    held = rules_of([rule("get", "pods")])
    wanted = rules_of(
        [rule("get list", "pods secrets"), rule("get", urls="/metrics"), rule("get", "pods", names="a")]
    )
    assert describe_missing(uncovered(held, wanted) or ()) == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}',
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
    ]


@pytest.mark.slow
def test_a_role_that_spells_out_billions_of_permissions_is_refused_quickly() -> None:
    many = tuple(f"r{n}" for n in range(20_000))
    hostile = RbacRule(verbs=many, groups=many, resources=many, names=many)
    held = [RbacRule(verbs=(f"r{n}",), groups=("*",), resources=(f"r{n}",)) for n in range(20)]
    assert uncovered(held, [hostile]) is None
    lines = describe_missing(uncovered([], [hostile]) or ())
    assert (len(lines), lines[-1]) == (rules.LISTED_MAX + 1, "... and more")
