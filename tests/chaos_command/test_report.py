"""The report: a story for somebody who knows their operator, and not fathom."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fathom.chaos.happened import Happened
from fathom.chaos.report import (
    HOW_TO_READ,
    Asked,
    ChaosReport,
    NotAReport,
    as_json,
    as_lines,
    decoded,
    failure_of,
    one_run,
    rerun,
)
from fathom.chaos.run import RunResult
from fathom.chaos.schedule import Schedule, Step
from fathom.sim.world.faults import LoseReply
from fathom.sim.world.violation import Violation

ASKED = Asked(("./my-operator", "--name", "a b"), ("crd.yaml", "hello.yaml"), (), ("--faults", "lose-reply"))
MAPS = ("configmaps/default/hello-x8f3q", "configmaps/default/hello-9zz2k")
HELLO = "greetings.example.dev/default/hello"
TWICE = Violation(
    "nothing is made twice for one intent",
    "Greeting hello has 2 configmaps of the name hello-…; without faults it has 1.\nWhat to do: name it.",
    24.5,
    MAPS,
)
EVENTS = (
    Happened(at_s=1.0, sort="write", who="you", what="creates greeting hello", objects=(HELLO,), revision=5),
    Happened(
        at_s=1.2,
        sort="write",
        who="operator",
        what="creates configmap hello-x8f3q",
        objects=(MAPS[0], HELLO),
        revision=6,
    ),
    Happened(
        at_s=1.3,
        sort="fault",
        who="operator",
        what="POST /api/v1/namespaces/default/configmaps: the reply is lost",
        revision=6,
        culprit="lost reply",
    ),
    Happened(
        at_s=1.4,
        sort="write",
        who="you",
        what="creates namespace other",
        objects=("namespaces/other",),
        revision=7,
    ),
    Happened(
        at_s=2.4,
        sort="write",
        who="operator",
        what="creates configmap hello-9zz2k",
        objects=(MAPS[1], HELLO),
        revision=8,
    ),
)
FAULT = LoseReply(at_s=0.5, target="operator", match="POST ")


def result(*violations: Violation) -> RunResult:
    return RunResult(
        schedule=Schedule((Step(0.9, "apply", 0),), (FAULT,), ()),
        violations=violations,
        events=EVENTS,
        fired={"lose-reply POST /api/v1/configmaps": 1},
        counted={},
        requests=17,
        starts=1,
        ready_s=0.7,
        seconds=25.0,
        output=Path("program.log"),
        last_lines=("trying again: connection reset",),
    )


def report(*violations: Violation) -> ChaosReport:
    failure = failure_of(3, result(*violations))
    return ChaosReport(
        verdict="holds" if failure is None else "broken",
        asked=ASKED,
        runs=(one_run(None, result()), one_run(3, result(*violations))),
        ready_s=0.7,
        failure=failure,
        rerun="" if failure is None else rerun(ASKED, 3),
    )


COUNTS = (
    "1 run with faults and one without, 1 fault took effect, 50 s; the API server was ready after 0.70 s",
    "The schedule of faults follows from the seed, and replays. The program's own timing does not: another "
    "run may meet the faults elsewhere.",
)
RERUN = (
    "fathom chaos --seed 3 --runs 1 --faults lose-reply --manifest crd.yaml --manifest hello.yaml -- "
    "./my-operator --name 'a b'"
)


def test_a_violation_is_told_with_what_led_to_it_and_the_command_to_run_it_again() -> None:
    assert as_lines(report(TWICE), file="chaos-3.json") == [
        "./my-operator --name 'a b', seed 3: BROKEN at 00:24.500",
        "  nothing is made twice for one intent",
        "  Greeting hello has 2 configmaps of the name hello-…; without faults it has 1.",
        "  What to do: name it.",
        "  about configmaps/default/hello-x8f3q, configmaps/default/hello-9zz2k",
        "",
        *HOW_TO_READ,
        "",
        "  1  00:01.000  you          creates greeting hello",
        "  2  00:01.200  operator     creates configmap hello-x8f3q",
        "  3  00:01.300  !! operator  POST /api/v1/namespaces/default/configmaps: the reply is lost"
        "  (because of 2)",
        "  4  00:02.400  operator     creates configmap hello-9zz2k",
        "  5  00:24.500  BROKEN       nothing is made twice for one intent: Greeting hello has 2 configmaps"
        " of the name hello-…; without faults it has 1.",
        "",
        "possible causes:",
        "  lost reply, line 3: operator POST /api/v1/namespaces/default/configmaps: the reply is lost",
        "",
        "faults planned, while objects were applied:",
        "  00:00.500  lose-reply operator on 'POST '",
        "faults that fired:",
        "  lose-reply POST /api/v1/configmaps",
        "",
        "the program's last lines:",
        "  | trying again: connection reset",
        "",
        *COUNTS,
        f"rerun:   {RERUN}",
        "replay:  fathom chaos --replay chaos-3.json -- ./my-operator --name 'a b'",
    ]


def test_what_held_is_told_in_a_few_lines_that_say_what_replays() -> None:
    assert as_lines(report()) == [
        "./my-operator --name 'a b': everything holds",
        *COUNTS,
    ]


def test_a_report_that_was_written_is_read_again_with_its_schedule() -> None:
    written = msgspec.json.encode(as_json(report(TWICE)))
    assert decoded(written, "chaos-3.json") == report(TWICE)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"nothing", "chaos.json is not a report of fathom chaos: "),
        (msgspec.json.encode(as_json(report())), "nothing broke in chaos.json: there is no schedule"),
        (
            msgspec.json.encode({**as_json(report(TWICE)), "format": "fathom-chaos/9"}),
            "chaos.json has the format 'fathom-chaos/9', this version of fathom reads 'fathom-chaos/1'",
        ),
    ],
)
def test_a_file_that_is_no_report_of_a_failure_is_refused_with_the_reason(
    content: bytes, complaint: str
) -> None:
    with pytest.raises(NotAReport) as refused:
        decoded(content, "chaos.json")
    assert str(refused.value).startswith(complaint)
