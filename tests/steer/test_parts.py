"""Templates, merge patches that put things back, samples of metrics, and the report: pure parts."""

from __future__ import annotations

import re
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.cli.problem import Problem
from fathom.cli.steer.runbook_approval import check_parameters, proposal_lines
from fathom.kinds.runbook import (
    RunbookAction,
    RunbookCondition,
    RunbookParameter,
    RunbookSpec,
    RunbookStep,
    WaitAction,
)
from fathom.kinds.runbook_run import (
    HistoryLine,
    PinnedRunbook,
    RecordedVerdict,
    RecordedWrite,
    RunbookRun,
    RunbookRunSpec,
    RunbookRunStatus,
    StepRecord,
)
from fathom.kinds.shape import Meta, ObjectRef
from fathom.model.objects import Obj
from fathom.steer.conditions import Conditions, NoConditions
from fathom.steer.merge_patches import inverse, still_ours
from fathom.steer.metrics_text import samples
from fathom.steer.report import report_text
from fathom.steer.templates import BadParameter, filled, filled_struct, resolved, run_values, values_of

CONTENT = RunbookSpec(
    parameters=(
        RunbookParameter(name="zone", description="the zone", pattern="[a-z]+"),
        RunbookParameter(name="count", default="2", type="integer"),
        RunbookParameter(name="hard", default="false", type="boolean"),
    )
)


def test_parameters_get_their_defaults_and_are_checked() -> None:
    assert resolved("book", CONTENT, {"zone": "a"}) == {"zone": "a", "count": "2", "hard": "false"}
    for given_, why in (
        ({}, r"runbook book: the parameter zone needs a value \(the zone\): --set zone=…"),
        ({"zone": "A1"}, r"runbook book: zone=A1 does not match \[a-z\]\+"),
        ({"zone": "a", "count": "two"}, "count=two is not an integer"),
        ({"zone": "a", "hard": "yes"}, "hard=yes is neither true nor false"),
        (
            {"zone": "a", "zoen": "b"},
            "runbook book: zoen=b is no parameter of it; there are: zone, count, hard",
        ),
    ):
        with pytest.raises(BadParameter, match=why):
            resolved("book", CONTENT, given_)


def test_a_stored_run_without_a_required_value_says_which_run_and_which_value() -> None:
    spec = RunbookRunSpec(runbook=PinnedRunbook(name="book"), content=CONTENT)
    bad = RunbookRun(metadata=Meta(name="r", namespace="shop"), spec=spec)
    why = (
        "run shop/r cannot be carried out: runbook book: the parameter zone needs a value (the zone):"
        " --set zone=…"
    )
    with pytest.raises(BadParameter, match=re.escape(why)):
        run_values(bad)
    assert why in proposal_lines(bad)  # It can still be shown, and refused.
    with pytest.raises(Problem, match="refuse it with `fathom runbook approve r -n shop --refuse`"):
        check_parameters(bad)


def test_a_stored_run_has_the_defaults_of_what_it_leaves_out() -> None:
    spec = RunbookRunSpec(runbook=PinnedRunbook(name="book"), content=CONTENT, parameters={"zone": "a"})
    run = RunbookRun(metadata=Meta(name="r", namespace="shop", uid="u"), spec=spec)
    assert filled("${zone} ${count} ${namespace}/${run}", run_values(run)) == "a 2 shop/r"


def test_a_placeholder_alone_has_the_type_of_its_parameter() -> None:
    values = values_of(CONTENT, resolved("book", CONTENT, {"zone": "a"}), namespace="ns", run="r", uid="u")
    template = {"n": "${count}", "t": "${count} in ${zone}", "b": ["${hard}"], "${zone}": "${run}/${uid}"}
    assert filled(template, values) == {"n": 2, "t": "2 in a", "b": [False], "a": "r/u"}
    action = RunbookAction(delete=ObjectRef(kind="Pod", name="${run}-x", namespace="${namespace}"))
    assert filled_struct(action, values).delete == ObjectRef(kind="Pod", name="r-x", namespace="ns")


# Merge patches.


def merged(obj: Obj, patch: Obj) -> Obj:
    """RFC 7396, the slow and obvious way."""
    result = dict(obj)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            before = result.get(name)
            result[name] = merged(before if isinstance(before, dict) else {}, value)
        else:
            result[name] = value
    return result


LEAVES = st.integers(0, 3) | st.text("ab", max_size=2)
NAMES = st.sampled_from("xyz")
OBJECTS = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=3), lambda part: st.dictionaries(NAMES, LEAVES | part, max_size=3)
)
PATCHES = st.recursive(
    st.dictionaries(NAMES, LEAVES | st.none(), max_size=3),
    lambda part: st.dictionaries(NAMES, LEAVES | st.none() | part, max_size=3),
)


@given(obj=OBJECTS, patch=PATCHES)
def test_the_inverse_of_a_patch_puts_everything_back(obj: Obj, patch: Obj) -> None:
    changed = merged(obj, patch)
    assert merged(changed, inverse(obj, patch)) == obj
    assert merged(changed, still_ours(changed, patch, inverse(obj, patch))) == obj


def test_what_somebody_else_has_changed_since_is_left() -> None:
    before: Obj = {"spec": {"replicas": 1}, "metadata": {"labels": {"a": "1"}}}
    patch: Obj = {"spec": {"replicas": 3}, "metadata": {"labels": {"word": "moin"}}}
    undone = inverse(before, patch)
    assert undone == {"spec": {"replicas": 1}, "metadata": {"labels": {"word": None}}}
    now = {"spec": {"replicas": 5}, "metadata": {"labels": {"a": "1", "word": "moin"}}}
    assert still_ours(now, patch, undone) == {"metadata": {"labels": {"word": None}}}


def test_of_a_map_that_was_not_there_before_only_what_is_ours_goes() -> None:
    patch: Obj = {"metadata": {"labels": {"word": "moin", "team": "a", "old": None}}}
    undone = inverse({"metadata": {}}, patch)
    now = {"metadata": {"labels": {"word": "moin", "team": "b", "by-hand": "1"}}}
    assert still_ours(now, patch, undone) == {"metadata": {"labels": {"word": None}}}
    assert still_ours({"metadata": {"labels": {"by-hand": "1"}}}, patch, undone) == {}


def test_what_a_patch_removed_is_put_back_though_somebody_has_removed_the_rest() -> None:
    patch: Obj = {"metadata": {"labels": {"word": None, "team": "a"}}}
    undone = inverse({"metadata": {"labels": {"word": "moin"}}}, patch)
    assert still_ours({"metadata": {}}, patch, undone) == {"metadata": {"labels": {"word": "moin"}}}


def test_samples_of_a_metric_are_read_with_their_labels() -> None:
    page = (
        "# HELP waiting Pods that wait.\n# TYPE waiting gauge\n"
        'waiting{queue="a",note="x\\"y, z=\\\\"} 2\nwaiting{queue="b"} 3.5 1700000000\nwaiting_total 9\n'
        'waiting{queue="c"} NaN\nwaiting{queue="d"} broken\n'
    )
    assert samples(page, "waiting", {}) == [
        {"labels": {"queue": "a", "note": 'x"y, z=\\'}, "value": 2.0},
        {"labels": {"queue": "b"}, "value": 3.5},
    ]
    assert samples(page, "waiting", {"queue": "b"}) == [{"labels": {"queue": "b"}, "value": 3.5}]
    assert samples(page, "waiting_total", {}) == [{"labels": {}, "value": 9.0}]


def test_without_the_library_for_conditions_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    Conditions(CONTENT)  # It has no conditions.
    content = RunbookSpec(preconditions=(RunbookCondition(name="c", expression="true"),))
    with pytest.raises(NoConditions, match=r"pip install 'fathom-control\[runbooks\]'"):
        Conditions(content)


# The report.

OVERRIDE = ObjectRef(kind="SchedulerOverride", namespace="shop", name="run-1", uid="u1")
RUN = RunbookRun(
    metadata=Meta(name="run-1", namespace="shop", uid="r1"),
    spec=RunbookRunSpec(
        runbook=PinnedRunbook(name="book", source="library", version=2, hash="abc"),
        content=RunbookSpec(
            title="A | book",
            steps=(
                RunbookStep(id="make", title="Make it", action=RunbookAction(create={})),
                RunbookStep(id="lost", action=RunbookAction(create={})),
                RunbookStep(id="wait", action=RunbookAction(wait=WaitAction())),
            ),
        ),
        parameters={"zone": "a"},
        reason="it burns",
    ),
    status=RunbookRunStatus(
        author="jane",
        phase="Stopped",
        reason="Regression",
        message="errors rise",
        started_at="T1",
        preconditions=(RecordedVerdict(name="ready", value="True", shown="3 of 3", time="T1"),),
        steps=(
            StepRecord(
                id="make",
                state="Done",
                by="jane",
                started_at="T1",
                ended_at="T2",
                object=OVERRIDE,
                writes=(
                    RecordedWrite(
                        verb="create", object=OVERRIDE, revision=7, audit_id="a-1", code=200, time="T1"
                    ),
                    RecordedWrite(verb="create", object=OVERRIDE, code=0, time="T1"),
                ),
            ),
            StepRecord(id="lost", state="Acted", by="joe", object=OVERRIDE, message="found by reading"),
        ),
        history=(
            HistoryLine(time="T1", text="jane starts the run", by="jane"),
            HistoryLine(time="T3", text="joe resumes the run (Running)", by="joe"),
        ),
    ),
)

REPORT = """\
# A \\| book

|  |  |
| --- | --- |
| run | shop/run-1 (r1) |
| runbook | book version 2 (library) |
| hash | abc |
| started by | jane |
| carried out by | jane, joe |
| reason | it burns |
| started | T1 |
| ended | not ended |
| result | Stopped (Regression) |
| message | errors rise |
| parameter zone | a |

## Preconditions, before the first write

| condition | value | evidence | message | since |
| --- | --- | --- | --- | --- |
| ready | True | 3 of 3 |  | T1 |

## Steps

### Make it (`make`)

Done; by jane; from T1; to T2

| write | object | revision | time | audit |
| --- | --- | --- | --- | --- |
| create | SchedulerOverride shop/run-1 | 7 | T1 | `a-1` |
| create, answer lost | SchedulerOverride shop/run-1 |  | T1 | **not confirmed by audit** |

### lost (`lost`)

Acted; by joe; found by reading

No answer to its write came; a read found it done: **not confirmed by audit**.

### wait (`wait`)

Pending

## What the run made and did not undo

| step | object | UID | state |
| --- | --- | --- | --- |
| make | SchedulerOverride shop/run-1 | u1 | Done |
| lost | SchedulerOverride shop/run-1 | u1 | Acted |

## Audit

The audit log does not confirm these writes (it may have lost them, or they did not happen):

| step | write | audit id | time |
| --- | --- | --- | --- |
| make | create | no answer came | T1 |

## History

| time | by | what |
| --- | --- | --- |
| T1 | jane | jane starts the run |
| T3 | joe | joe resumes the run (Running) |
"""


def test_the_report_has_what_a_post_mortem_needs_and_marks_what_audit_does_not_confirm() -> None:
    assert report_text(RUN, frozenset({"a-1"})) == REPORT
    assert "`a-1` **not confirmed by audit**" in report_text(RUN, frozenset())


def test_a_report_is_made_of_any_record() -> None:
    empty = msgspec.convert({}, RunbookRun)
    assert report_text(empty, frozenset()).startswith("# ")
    asked = msgspec.structs.replace(empty.spec, parameters={"reason": "metrics are wrong"})
    given = report_text(msgspec.structs.replace(empty, spec=asked), frozenset())
    assert "| reason | metrics are wrong |" in given
