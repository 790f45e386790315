"""Reviews: permissions and identities, asked as objects."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from tests.api.auth.cluster import (
    Cluster,
    StoppedClock,
    binding,
    ids,
    role,
    rule,
    to_group,
    to_user,
    user,
)

from fathom.api.auth.accounts import AccountTokens
from fathom.api.auth.authenticate import Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.jws import SigningKey
from fathom.api.auth.reviews import review
from fathom.api.auth.static_tokens import parse_tokens
from fathom.kube.definitions.kind import Kind
from fathom.model.accounts import NODES
from fathom.model.errors import ApiError
from fathom.model.objects import Obj
from fathom.model.user import AUTHENTICATED, User

CLUSTER = Cluster(
    role("reads", rule("get list", "pods"), rule("get", "secrets", names="mine")),
    binding("b", "reads", to_user("jane"), to_group("ops")),
)
JUDGE = Authorizer(CLUSTER)
CLOCK = StoppedClock()
ACCOUNTS = AccountTokens(SigningKey(ec.generate_private_key(ec.SECP256R1())), CLUSTER, CLOCK, ids())
WHO = Authenticator(tokens=parse_tokens('t1,jane,7,"ops"'), accounts=ACCOUNTS, clock=CLOCK)
ALLOWED = 'RBAC: allowed by RoleBinding "b/default" of Role "reads" to User "jane"'


def ask(name: str, spec: Any, who: User | None = None, namespace: str = "") -> Obj:
    group = (
        "authentication.k8s.io" if name in {"TokenReview", "SelfSubjectReview"} else "authorization.k8s.io"
    )
    kind = Kind(
        group=group,
        version="v1",
        kind=name,
        plural=f"{name.lower()}s",
        singular=name.lower(),
        namespaced=name.startswith("Local"),
        list_kind=f"{name}List",
        virtual=True,
    )
    obj = {"kind": name, "apiVersion": kind.api_version, "metadata": {}, "spec": spec}
    answered = review(kind, obj, who or user("jane"), JUDGE, WHO, namespace)
    assert {**answered, "status": None} == {**obj, "status": None}
    found: Obj = answered["status"]
    return found


def about(verb: str, resource: str, **more: str) -> Obj:
    return {"verb": verb, "resource": resource, "namespace": "default", **more}


def test_may_i() -> None:
    spec = {"resourceAttributes": about("list", "pods")}
    assert ask("SelfSubjectAccessReview", spec) == {"allowed": True, "reason": ALLOWED}
    assert ask("SelfSubjectAccessReview", spec, user("joe")) == {"allowed": False}
    mine, other = ({"resourceAttributes": about("get", "secrets", name=name)} for name in ("mine", "other"))
    assert ask("SelfSubjectAccessReview", mine)["allowed"]
    assert not ask("SelfSubjectAccessReview", other)["allowed"]
    path = {"nonResourceAttributes": {"verb": "get", "path": "/healthz"}}
    assert ask("SelfSubjectAccessReview", path) == {"allowed": True}


def test_may_they() -> None:
    attributes = about("list", "pods")
    assert ask("SubjectAccessReview", {"user": "jane", "resourceAttributes": attributes}, user("x"))[
        "allowed"
    ]
    assert ask("SubjectAccessReview", {"groups": ["ops"], "resourceAttributes": attributes})["allowed"]
    assert not ask("SubjectAccessReview", {"user": "joe", "resourceAttributes": attributes})["allowed"]


def test_may_they_in_this_namespace() -> None:
    spec = {"user": "jane", "resourceAttributes": about("list", "pods")}
    assert ask("LocalSubjectAccessReview", spec, namespace="default")["allowed"]
    with pytest.raises(ApiError, match=r"must match metadata\.namespace"):
        ask("LocalSubjectAccessReview", spec, namespace="other")
    with pytest.raises(ApiError, match="disallowed on this kind of request"):
        ask(
            "LocalSubjectAccessReview",
            {"user": "jane", "nonResourceAttributes": {"path": "/", "verb": "get"}},
        )


@pytest.mark.parametrize(
    ("name", "spec", "why"),
    [
        ("SelfSubjectAccessReview", {}, "exactly one of nonResourceAttributes or resourceAttributes"),
        ("SelfSubjectAccessReview", None, "exactly one of nonResourceAttributes or resourceAttributes"),
        (
            "SelfSubjectAccessReview",
            {"resourceAttributes": {}, "nonResourceAttributes": {}},
            "cannot be specified in combination with resourceAttributes",
        ),
        (
            "SubjectAccessReview",
            {"resourceAttributes": {}},
            "at least one of user or group must be specified",
        ),
    ],
)
def test_an_unclear_question_is_invalid(name: str, spec: Any, why: str) -> None:
    with pytest.raises(ApiError, match=why) as error:
        ask(name, spec)
    assert (error.value.code, error.value.reason) == (422, "Invalid")


def test_an_empty_resource_is_no_path_to_health() -> None:
    assert ask("SelfSubjectAccessReview", {"resourceAttributes": {"verb": "get"}}) == {"allowed": False}


def test_all_that_i_may_do_here() -> None:
    assert ask("SelfSubjectRulesReview", {"namespace": "default"}) == {
        "resourceRules": [
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]},
        ],
        "nonResourceRules": [],
        "incomplete": False,
    }
    of_a_node = ask("SelfSubjectRulesReview", {"namespace": "default"}, user("system:node:n", NODES))
    assert of_a_node["incomplete"]
    with pytest.raises(ApiError, match="no namespace on request"):
        ask("SelfSubjectRulesReview", {})


def test_who_is_the_holder_of_this_token() -> None:
    assert ask("TokenReview", {"token": "t1"}) == {
        "authenticated": True,
        "user": {"username": "jane", "uid": "7", "groups": ["ops", AUTHENTICATED]},
        "audiences": list(ACCOUNTS.audiences),
    }
    assert ask("TokenReview", {"token": "wrong"}) == {"user": {}, "error": "invalid bearer token"}
    for spec in ({}, {"token": ""}, None):
        with pytest.raises(ApiError, match="token is required for TokenReview in authentication"):
            ask("TokenReview", spec)


def test_who_am_i() -> None:
    who = User("jane", ("ops",), uid="7", extra=(("a/b", ("c", "d")),))
    assert ask("SelfSubjectReview", None, who) == {
        "userInfo": {"username": "jane", "uid": "7", "groups": ["ops"], "extra": {"a/b": ["c", "d"]}}
    }


def test_a_review_we_do_not_know_is_said_to_be_unsupported() -> None:
    with pytest.raises(ApiError, match="fathom does not support ImageReview"):
        ask("ImageReview", {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["user", "groups", "uid", "extra", "token", "audiences", "namespace", "resourceAttributes"]
ATTRIBUTES = st.dictionaries(st.sampled_from(["verb", "resource", "name", "namespace", "group"]), JSON)


@given(
    st.sampled_from(
        ["SelfSubjectAccessReview", "SubjectAccessReview", "SelfSubjectRulesReview", "TokenReview"]
    ),
    st.one_of(JSON, st.dictionaries(st.sampled_from(FIELDS), st.one_of(JSON, ATTRIBUTES))),
)
def test_a_question_of_any_shape_gets_an_answer_or_a_refusal(name: str, spec: Any) -> None:
    try:
        ask(name, spec)
    except ApiError as error:
        assert error.code in {400, 422}  # noqa: PT017 - an answer is as good
