"""The admission policy for overrides: what it refuses, by its own expressions, and what it vouches for.

fathom's server evaluates no policies and no kube-apiserver is at hand: the expressions are evaluated here by
a CEL library, with what an API server would put into `object`, `oldObject`, `request` and `variables`. What
its `authorizer` says is a variable here."""

from __future__ import annotations

from typing import Any

import pytest
from cel_expr_python import cel

from fathom.kinds.override_changes import CHANGES
from fathom.kinds.override_policy import AUTHOR, Vouching, binding_spec, may, policy_spec, vouching
from fathom.model.times import moment_ns

ENV = cel.NewEnv(
    variables=dict.fromkeys(("object", "oldObject", "request", "variables", "allowed"), cel.Type.DYN)
)
VERBS = sorted({rule.verb for rule in CHANGES.values()})


def override(author: str = "jane", /, **changes: Any) -> dict[str, Any]:
    notes = {"annotations": {AUTHOR: author}} if author else {}
    spec = {"target": "workload/web", "changes": changes or {"avoidZones": ["a"]}}
    return {"metadata": {"name": "o", **notes}, "spec": spec}


def value(expression: str, known: dict[str, Any]) -> Any:
    for verb in VERBS:
        expression = expression.replace(may(verb), f"allowed['{verb}']")
    result = ENV.compile(expression).eval(data=known)
    assert result.type() != cel.Type.ERROR, f"{expression}: {result.value()}"
    return result.plain_value()


def refusals(
    obj: dict[str, Any],
    old: dict[str, Any] | None = None,
    *,
    namespace: str = "shop",
    verbs: tuple[str, ...] = tuple(VERBS),
) -> list[str]:
    """The messages of the validations that fail for jane."""
    request = {
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": namespace,
        "userInfo": {"username": "jane"},
    }
    known = {"object": obj, "oldObject": old, "request": request, "allowed": {v: v in verbs for v in VERBS}}
    known["variables"] = {
        variable["name"]: value(variable["expression"], known)
        for variable in policy_spec()["variables"]
        if old is not None or "oldObject" not in variable["expression"]  # Lazy, as in a server.
    }
    return [
        value(each["messageExpression"], known) if "messageExpression" in each else each["message"]
        for each in policy_spec()["validations"]
        if not value(each["expression"], known)
    ]


def test_an_author_signs_with_the_own_name() -> None:
    assert refusals(override("jane")) == []
    wrong = ["the annotation fathom.dev/author must be your own user name, jane"]
    assert refusals(override("alice")) == wrong
    assert refusals(override("")) == wrong


def test_neither_spec_nor_author_can_be_changed_afterwards() -> None:
    wrong = ["spec and annotation fathom.dev/author cannot be changed: end the override, create another"]
    before = override("alice")
    assert refusals({**before, "metadata": {**before["metadata"], "labels": {"a": "b"}}}, before) == []
    assert refusals(override("alice", avoidZones=["b"]), before) == wrong
    assert refusals(override("jane"), before) == wrong
    assert refusals(override(""), before) == wrong
    assert refusals(override(""), override("")) == []  # From before the policy: a finalizer may be removed.


def test_infrastructure_is_steered_from_the_system_namespace_only() -> None:
    cordon = override(cordon=True)
    for target in ("node/node-1", "zone/a", "pool/p"):
        cordon["spec"]["target"] = target
        assert refusals(cordon, namespace="fathom-system") == []
        assert refusals(cordon) == ["an override of infrastructure must be in the namespace fathom-system"]


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_needs_its_verb(change: str) -> None:
    verb = CHANGES[change].verb
    assert refusals(override(**{change: ["x"]}), verbs=(verb,)) == []
    others = tuple(each for each in VERBS if each != verb)
    (refused,) = refusals(override(**{change: ["x"]}), verbs=others)
    assert refused.endswith(f": the verb {verb} on scheduleroverrides.fathom.dev is needed")
    assert change in refused.split(":")[0].split(", ")


def stored(spec: dict[str, Any], created: str = "2026-01-01T00:00:00Z", **meta: str) -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": created, **meta}, "spec": spec}


def with_defaults() -> dict[str, Any]:
    """As a server stores the policy."""
    spec = policy_spec()
    constraints = {**spec["matchConstraints"], "namespaceSelector": {}, "objectSelector": {}}
    return {**spec, "matchConstraints": constraints}


def test_it_vouches_from_when_every_server_may_have_it() -> None:
    policy, binding = stored(with_defaults()), stored(binding_spec(), "2026-01-01T00:00:05Z")
    assert vouching(policy, binding) == Vouching(moment_ns("2026-01-01T00:00:15Z"))


@pytest.mark.parametrize(
    ("policy", "binding", "why"),
    [
        (None, stored(binding_spec()), "there is no ValidatingAdmissionPolicy fathom-overrides"),
        (stored(policy_spec()), None, "there is no ValidatingAdmissionPolicyBinding fathom-overrides"),
        (
            stored(policy_spec(), deletionTimestamp="2026-01-01T00:00:00Z"),
            stored(binding_spec()),
            "ValidatingAdmissionPolicy fathom-overrides is being deleted",
        ),
        (
            stored({**policy_spec(), "failurePolicy": "Ignore"}),
            stored(binding_spec()),
            "ValidatingAdmissionPolicy fathom-overrides is not the one that this version of fathom installs",
        ),
        (
            stored({**policy_spec(), "matchConditions": [{"name": "n", "expression": "false"}]}),
            stored(binding_spec()),
            "ValidatingAdmissionPolicy fathom-overrides is not the one that this version of fathom installs",
        ),
        (
            stored(policy_spec()),
            stored({**binding_spec(), "validationActions": ["Warn"]}),
            "ValidatingAdmissionPolicyBinding fathom-overrides is not the one that this version of fathom"
            " installs",
        ),
    ],
)
def test_a_policy_that_is_missing_or_weakened_vouches_for_nothing(
    policy: dict[str, Any] | None, binding: dict[str, Any] | None, why: str
) -> None:
    assert vouching(policy, binding) == Vouching(None, why)
