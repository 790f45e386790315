"""The runbooks that come with fathom are valid, compile, and say how they are undone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.api.harness import Api, tell

from fathom.kinds.override_validation import validate as validate_override
from fathom.kinds.runbook import Runbook, spec_hash, writes
from fathom.kinds.runbook_validation import validate
from fathom.kinds.shape import read
from fathom.model.objects import Obj
from fathom.model.times import moment_ns
from fathom.steer.conditions import Conditions, Facts, Observation
from fathom.steer.runbook_library import library
from fathom.steer.templates import filled, resolved, values_of

BOOKS = library()
NAMES = [
    "drain-zone",
    "free-leaked-reservations",
    "freeze-autoscaling",
    "recover-workload-from-stale-zone",
    "roll-policy-back",
    "shift-traffic",
]
GIVEN = {"workload": "risk-api", "region": "eu-west", "zone": "eu-west-a", "reason": "test", "rollout": "v5"}
MORE = {"bad": "v5", "good": "v4", "proposal": "p", "from": "eu-west", "to": "eu-central"}


def test_the_library_has_the_runbooks_that_the_docs_list() -> None:
    assert list(BOOKS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_of_the_library_is_valid_and_its_conditions_compile(name: str) -> None:
    book = BOOKS[name]
    assert validate(msgspec.json.decode(msgspec.json.encode(book))) == []
    Conditions(book.spec)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_step_makes_is_undone_or_said_to_stay(name: str) -> None:
    for step in BOOKS[name].spec.steps:
        if writes(step):
            assert (step.compensation is not None) == step.reversible


@pytest.mark.parametrize("name", NAMES)
def test_the_overrides_that_a_runbook_makes_are_accepted(name: str) -> None:
    content = BOOKS[name].spec
    wanted = {parameter.name for parameter in content.parameters}
    given = {key: value for key, value in {**GIVEN, **MORE}.items() if key in wanted}
    values = values_of(
        content, resolved("book", content, given), namespace="fathom-system", run="run-1", uid="1"
    )
    for step in content.steps:
        template = step.action.create
        if template is not None and template["kind"] == "SchedulerOverride":
            made = filled(template, values)
            made["metadata"]["namespace"] = "fathom-system"
            assert validate_override(made) == []


def test_a_runbook_keeps_its_hash_when_it_is_stored(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for book in BOOKS.values():
            plain = msgspec.to_builtins(book)
            plain |= {"apiVersion": "fathom.dev/v1alpha1", "kind": "Runbook"}
            path = "/apis/fathom.dev/v1alpha1/namespaces/default/runbooks"
            answer = await api.post(f"{path}?fieldValidation=Strict", plain)
            assert answer.status == 201, answer.obj
            assert spec_hash(read(Runbook, answer.obj).spec) == spec_hash(book.spec)

    tell(story, tmp_path)


HERE = {"name": "other", "namespace": "default"}
OTHERS = [
    ({"metadata": HERE, "status": {"expiresAt": "2026-01-01T12:10:00Z"}}, "False"),
    ({"metadata": HERE, "status": {}}, "False"),  # It waits for its approval.
    ({"metadata": HERE, "status": {"expiresAt": "2026-01-01T11:50:00Z"}}, "True"),
    ({"metadata": {**HERE, "deletionTimestamp": "2026-01-01T11:50:00Z"}, "status": {}}, "True"),
    ({"metadata": {**HERE, "name": "mine"}, "status": {}}, "True"),
]


@pytest.mark.parametrize(("other", "value"), OTHERS)
@pytest.mark.parametrize(
    ("name", "condition"),
    [("recover-workload-from-stale-zone", "no-other-override"), ("drain-zone", "no-other-drain")],
)
def test_an_override_that_has_ended_and_stays_as_a_record_is_in_nobodys_way(
    name: str, condition: str, other: Obj, value: str
) -> None:
    content = BOOKS[name].spec
    spec = {"target": "workload/risk-api", "changes": {"drain": True}}
    seen = {"overrides": Observation([{**other, "spec": spec}])}
    facts = Facts(moment_ns("2026-01-01T12:00:00Z") or 0, GIVEN, {"name": "mine"}, {}, seen)
    asked = [each for each in content.preconditions if each.name == condition]
    assert [verdict.value for verdict in Conditions(content).judge(asked, facts)] == [value]
