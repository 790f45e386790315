"""The table of reasons: whole, without homonyms, and the same in docs/reasons.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.model.reasons import (
    CONTAINER_BOUNDARIES,
    REASONS,
    container_boundary,
    is_rejection,
    refusal_boundary,
    remedy_for,
)
from fathom.schedule.decide.rules import FILTERS

DOCS = Path(__file__).parent.parent.parent / "docs" / "reasons.md"


def table() -> str:
    """As `docs/reasons.md` has it. To renew it: put what this returns there."""
    rows = [f"| `{one.name}` | {one.cause} | {one.cure} | `{one.remedy}` |" for one in REASONS]
    return "\n".join(["| reason | cause | cure | remedy |", "| --- | --- | --- | --- |", *rows])


def test_the_documented_table_is_the_one_in_the_code() -> None:
    assert table() in DOCS.read_text()


def test_the_documented_filters_are_those_in_the_code() -> None:
    """By rule: its boundary, and the remedy where no reason says more."""
    rows = [f"| `{one.name}` | `{one.boundary}` |" for one in FILTERS]
    assert "\n".join(["| rule | boundary |", "| --- | --- |", *rows]) in DOCS.read_text()


def test_each_reason_is_there_once_and_each_boundary_in_use_is_known() -> None:
    names = [one.name for one in REASONS]
    assert len(names) == len(set(names))
    known = {one.boundary for one in REASONS}
    assert known.issuperset(one.boundary for one in FILTERS)
    assert known.issuperset(CONTAINER_BOUNDARIES.values())


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [("capacity/ports", "FreePort"), ("quota/risk-zone-c", "RaiseQuota"), ("capacity", "AddCapacity"),
     ("license/cad", "")],
)  # fmt: skip
def test_a_remedy_is_that_of_the_reason_else_of_its_boundary(reason: str, remedy: str) -> None:
    assert remedy_for(reason) == remedy


@pytest.mark.parametrize(
    ("reason", "boundary"),
    [("ImagePullBackOff", "image"), ("CreateContainerConfigError", "config"), ("RunContainerError", "crash"),
     ("NoImageryServiceError", "start"), ("ContainerCreating", "start")],
)  # fmt: skip
def test_a_containers_reason_is_looked_up_and_not_read(reason: str, boundary: str) -> None:
    assert container_boundary(reason) == boundary


def test_a_refusal_is_the_quotas_where_the_server_names_it_as_the_cause() -> None:
    assert refusal_boundary(("QuotaExceeded",)) == "quota"
    assert refusal_boundary(("FieldValueForbidden",)) == refusal_boundary(()) == "admission"


def test_a_node_rejects_by_an_id() -> None:
    assert is_rejection("OutOfcpu")
    assert is_rejection("NodeAffinity")
    assert not is_rejection("DeadlineExceeded")
