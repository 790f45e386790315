"""Runbooks that make no sense are refused with a cause; the server says who wrote a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.api.harness import JANE, Api, tell

from fathom.kinds import runbook_validation
from fathom.kinds.runbook import RunbookSpec, spec_hash
from fathom.model.objects import Obj

OWN = "/apis/fathom.dev/v1alpha1/namespaces/default"
STEP: Obj = {"id": "one", "action": {"wait": {"about": "nothing"}}}
POD: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "${run}"}}


def book(**spec: Any) -> Obj:
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Runbook",
        "metadata": {"name": "book"},
        "spec": {"steps": [STEP], **spec},
    }


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"steps": []}, "spec.steps"),
        ({"steps": [STEP, STEP]}, "spec.steps[1].id"),
        ({"steps": [{**STEP, "id": "One!"}]}, "spec.steps[0].id"),
        ({"steps": [{"id": "a", "action": {}}]}, "spec.steps[0].action"),
        ({"steps": [{"id": "a", "action": {"create": POD, "wait": {}}}]}, "spec.steps[0].action"),
        ({"steps": [{"id": "a", "action": {"restore": True}}]}, "spec.steps[0].action"),
        ({"steps": [{**STEP, "compensation": {"wait": {}}}]}, "spec.steps[0].compensation"),
        ({"steps": [{**STEP, "timeout": "soon"}]}, "spec.steps[0].timeout"),
        ({"steps": [{**STEP, "retry": {"backoff": "1"}}]}, "spec.steps[0].retry.backoff"),
        ({"steps": [{"id": "a", "action": {"create": {"kind": "${what}"}}}]}, "spec"),
        ({"parameters": [{"name": "a", "pattern": "("}]}, "spec.parameters[0].pattern"),
        ({"inputs": [{"name": "run", "list": {"kind": "Pod"}}]}, "spec.inputs[0].name"),
        ({"inputs": [{"name": "a"}]}, "spec.inputs[0]"),
        ({"inputs": [{"name": "a", "list": {"kind": "Pod"}, "maxAge": "30s"}]}, "spec.inputs[0].timePath"),
        (
            {"postconditions": [{"name": "a", "expression": "true", "for": "long"}]},
            "spec.postconditions[0].for",
        ),
    ],
)
def test_a_runbook_that_makes_no_sense_is_refused_with_the_field(spec: Obj, field: str) -> None:
    assert [cause.field for cause in runbook_validation.validate(book(**spec))] == [field]


def test_a_good_runbook_has_no_cause() -> None:
    step = {"id": "a", "action": {"create": POD}, "compensation": {"restore": True}}
    assert runbook_validation.validate(book(steps=[step])) == []


def test_a_changed_runbook_has_a_higher_version(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        made = (await api.post(f"{OWN}/runbooks", book())).obj
        made["spec"]["title"] = "another"
        answer = await api.put(f"{OWN}/runbooks/book", made)
        assert (answer.status, answer.causes) == (422, [("spec.version", "FieldValueInvalid")])
        made["spec"]["version"] = 2
        assert (await api.put(f"{OWN}/runbooks/book", made)).status == 200

    tell(story, tmp_path)


PARAMETERS = [
    {"name": "zone", "description": "where"},
    {"name": "count", "default": "2", "type": "integer"},
]


def run(**changes: Any) -> Obj:
    return run_of([], **changes)


def run_of(declared: list[Obj], **changes: Any) -> Obj:
    content = book(parameters=declared)["spec"]
    pinned = spec_hash(msgspec.convert(content, RunbookSpec))
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "RunbookRun",
        "metadata": {"name": "run"},
        "spec": {"runbook": {"name": "book", "hash": pinned}, "content": content, **changes},
    }


def test_a_run_is_pinned_to_its_runbook_by_a_hash_that_the_server_checks(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        answer = await api.post(f"{OWN}/runbookruns", run(runbook={"name": "book", "hash": "abc"}))
        assert (answer.status, answer.causes) == (422, [("spec.runbook.hash", "FieldValueInvalid")])
        made = await api.post(f"{OWN}/runbookruns", run())
        assert (made.status, made.obj["status"]) == (201, {"author": "admin", "phase": "Pending"})
        made.obj["spec"]["reason"] = "another"
        assert (await api.put(f"{OWN}/runbookruns/run", made.obj)).status == 422

    tell(story, tmp_path)


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({}, "[zone]: Required value: runbook book: parameter zone needs a value (where)"),
        (
            {"zone": "a", "count": "two"},
            '[count]: Invalid value: "two": runbook book: parameter count is not an integer',
        ),
        (
            {"zone": "a", "zoen": "b"},
            '[zoen]: Invalid value: "b": runbook book: parameter zoen is no parameter of it; there are: '
            "zone, count",
        ),
    ],
)
def test_a_run_whose_parameters_are_not_those_of_its_runbook_is_refused(
    given: Obj, cause: str, tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        answer = await api.post(f"{OWN}/runbookruns", run_of(PARAMETERS, parameters=given))
        assert (answer.status, answer.obj["message"]) == (
            422,
            f'RunbookRun.fathom.dev "run" is invalid: spec.parameters{cause}',
        )

    tell(story, tmp_path)


def test_a_run_may_leave_out_what_has_a_default(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        made = await api.post(f"{OWN}/runbookruns", run_of(PARAMETERS, parameters={"zone": "a"}))
        assert (made.status, made.obj["spec"]["parameters"]) == (201, {"zone": "a"})

    tell(story, tmp_path)


def test_a_record_says_who_wrote_each_part_whatever_its_writer_says(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            {
                "metadata": {"name": "jane"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
            },
        )
        obj = (await api.post(f"{OWN}/runbookruns", run())).obj
        step = {"id": "one", "state": "Acting", "by": "somebody-else"}
        obj["status"] |= {"author": "jane", "steps": [step], "history": [{"text": "begun", "by": "x"}]}
        obj = (await api.put(f"{OWN}/runbookruns/run/status", obj)).obj
        assert (obj["status"]["author"], obj["status"]["steps"][0]["by"]) == ("admin", "admin")
        obj["status"]["steps"] = [{"id": "one", "state": "Acted", "by": "admin"}]
        obj["status"]["history"] += [{"text": "went on", "by": "admin"}]
        obj = (await api.put(f"{OWN}/runbookruns/run/status", obj, token=JANE)).obj
        assert obj["status"]["steps"] == [{"id": "one", "state": "Acted", "by": "jane"}]
        assert [line["by"] for line in obj["status"]["history"]] == ["admin", "jane"]

    tell(story, tmp_path)
