"""The golden refusals: objects that are not accepted, and exactly what is said about them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kube.rules.written import (
    GOLDEN,
    at_create,
    at_status,
    at_update,
    causes,
    changed,
    created,
    golden,
)

from fathom.model.errors import Cause

FILES = sorted(path.stem for path in GOLDEN.glob("*.yaml") if "cases" in golden(path.stem))
CASES = [(file, case) for file in FILES for case in golden(file)["cases"]]


def expected(text: str) -> list[Cause]:
    """One cause a line: its field, a colon, its message."""
    return causes(*(tuple(line.split(": ", 1)) for line in text.splitlines()))  # type: ignore[arg-type]  # pairs


@pytest.mark.parametrize(("file", "case"), CASES, ids=[f"{file}: {case}" for file, case in CASES])
def test_golden_refusals(file: str, case: str) -> None:
    document = golden(file)
    assert found(document, document["cases"][case]) == expected(document["cases"][case].get("refused", ""))


def found(document: dict[str, Any], case: dict[str, Any]) -> list[Cause]:
    """At creation; or, where the case has one, at an update or a report about what `given` has made."""
    resource = document["resource"]
    base = changed(document["object"], case.get("given", {}))
    if "update" in case:
        stored = created(resource, base)
        stored |= {"status": case["status"]} if "status" in case else {}
        return at_update(resource, changed(stored, case["update"]), stored)
    if "report" in case:
        stored = created(resource, base)
        stored |= {"status": case["status"]} if "status" in case else {}
        return at_status(resource, case["report"], stored)
    return at_create(resource, changed(base, case.get("change", {})))


@pytest.mark.parametrize("file", FILES)
def test_the_objects_that_cases_start_from_are_accepted(file: str) -> None:
    document = golden(file)
    assert at_create(document["resource"], document["object"]) == []
