"""`fathom runbook`: list, show, plan and run runbooks; resume, abort and report runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from fathom.cli.kubeconfig import found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.terminal import say, say_json, say_text

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any

    from fathom.kinds.runbook_run import RunbookRunStatus

RunbookName = Annotated[str, Parameter(help="Name of a runbook, of the library or in the namespace.")]
RunName = Annotated[str, Parameter(help="Name of the run, as `fathom runbook list --runs` shows it.")]
Namespace = Annotated[str, Parameter(name=("--namespace", "-n"), help="Namespace of the run and its target.")]
Settings = Annotated[
    tuple[str, ...],
    Parameter(name="--set", negative=(), help="NAME=VALUE: the value of a parameter. Repeat it for others."),
]
Answers = Annotated[
    tuple[str, ...],
    Parameter(
        name="--answer",
        negative=(),
        help="STEP=yes or STEP=no: answers the question of a step. Without it the terminal is asked.",
    ),
]
Yes = Annotated[
    bool, Parameter(name=("--yes", "-y"), negative=(), help="Do not ask before anything is done.")
]
Kubeconfig = Annotated[
    Path | None,
    Parameter(help="Kubeconfig file. Default: $KUBECONFIG, else .fathom/kubeconfig, else kubectl's."),
]


def make_app() -> App:
    app = App(
        name="runbook",
        help="Carry out runbooks: procedures with conditions, steps that can be undone, and a record.",
    )
    app.command(list_runbooks, name="list")
    app.command(show)
    app.command(plan)
    app.command(run)
    app.command(resume)
    app.command(abort)
    app.command(report)
    return app


def list_runbooks(
    *,
    namespace: Annotated[
        str, Parameter(name=("--namespace", "-n"), help="Only of this namespace. Default: all namespaces.")
    ] = "",
    runs: Annotated[bool, Parameter(negative=(), help="List runs instead of runbooks.")] = False,
    output: Annotated[
        Literal["", "json"], Parameter(name=("--output", "-o"), help="json: print a JSON list.")
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """List the runbooks of the library and those stored in the cluster, or the runs."""
    import msgspec  # noqa: PLC0415  # See the package's docstring.

    from fathom.cli.runbooks import RUN_COLUMNS, RUNBOOK_COLUMNS, listed  # noqa: PLC0415

    rows, objects = asyncio.run(listed(found_kubeconfig(kubeconfig), namespace, runs=runs))
    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(objects), indent=2).decode())
    elif rows:
        say(*_table([RUN_COLUMNS if runs else RUNBOOK_COLUMNS, *rows]))
    else:
        say("there are no runs" if runs else "there are no runbooks")
    return 0


def show(
    name: RunbookName,
    /,
    *,
    namespace: Namespace = "default",
    output: Annotated[
        Literal["", "yaml"], Parameter(name=("--output", "-o"), help="yaml: the Runbook as an object.")
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show what a runbook needs, checks and does, and how each step is undone."""
    from fathom.cli.runbook_plans import runbook_lines, runbook_yaml  # noqa: PLC0415

    if output == "yaml":
        say_text(_awaited(runbook_yaml(found_kubeconfig(kubeconfig), namespace, name)))
    else:
        say(*_awaited(runbook_lines(found_kubeconfig(kubeconfig), namespace, name)))
    return 0


def plan(
    name: RunbookName,
    /,
    *,
    settings: Settings = (),
    namespace: Namespace = "default",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show each step with its values, and judge the preconditions now. Nothing is written. Exits with 1 if a
    precondition does not hold."""
    from fathom.cli.runbook_plans import planned  # noqa: PLC0415

    lines, ready = _awaited(planned(found_kubeconfig(kubeconfig), namespace, name, _pairs(settings, "--set")))
    say(*lines)
    return 0 if ready else ANSWER_IS_NO


def run(
    name: RunbookName,
    /,
    *,
    settings: Settings = (),
    namespace: Namespace = "default",
    run_name: Annotated[
        str, Parameter(name="--name", help="Name of the run. Default: the runbook's, and five letters.")
    ] = "",
    reason: Annotated[str, Parameter(help="Why it is run: for the record.")] = "",
    answers: Answers = (),
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Carry out a runbook with your own credentials, and keep its record in the cluster. Exits with 1 if the
    run did not succeed."""
    from fathom.cli.runbooks import RunRequest, start_run  # noqa: PLC0415

    request = RunRequest(
        runbook=name,
        namespace=namespace,
        parameters=_pairs(settings, "--set"),
        name=run_name,
        reason=reason,
        answers=_answers(answers),
        yes=yes,
    )
    return _exit_code(_awaited(start_run(found_kubeconfig(kubeconfig), request)), "Succeeded")


def resume(
    run_name: RunName,
    /,
    *,
    namespace: Namespace = "default",
    answers: Answers = (),
    take_over: Annotated[
        bool, Parameter(negative=(), help="Also if another client seems to be at work on the run.")
    ] = False,
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Go on with a run that was left or has stopped, whoever began it; if somebody else did, its steps are
    shown first, since they are done with your rights. What was done is found by reading, and is not repeated.
    Exits with 1 if the run did not succeed."""
    from fathom.cli.runbooks import resume_run  # noqa: PLC0415

    given = _answers(answers)
    status = _awaited(
        resume_run(found_kubeconfig(kubeconfig), namespace, run_name, given, take_over=take_over, yes=yes)
    )
    return _exit_code(status, "Succeeded")


def abort(
    run_name: RunName,
    /,
    *,
    namespace: Namespace = "default",
    reason: Annotated[str, Parameter(help="Why it is aborted: for the record.")] = "",
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Undo a run, from its last step to its first, whatever state it is in. The client that carries it out
    stops. Exits with 1 if something could not be undone."""
    from fathom.cli.runbooks import abort_run  # noqa: PLC0415

    status = _awaited(abort_run(found_kubeconfig(kubeconfig), namespace, run_name, reason, yes=yes))
    return _exit_code(status, "Aborted")


def report(run_name: RunName, /, *, namespace: Namespace = "default", kubeconfig: Kubeconfig = None) -> int:
    """Print the record of a run as Markdown: who did what and when, with evidence, and what the audit log
    does not confirm."""
    from fathom.cli.runbooks import report_of  # noqa: PLC0415

    say_text(_awaited(report_of(found_kubeconfig(kubeconfig), namespace, run_name)))
    return 0


def _awaited(work: Coroutine[Any, Any, Any]) -> Any:
    from fathom.steer.conditions import BadCondition, NoConditions  # noqa: PLC0415
    from fathom.steer.record_writer import RunLost  # noqa: PLC0415
    from fathom.steer.templates import BadParameter  # noqa: PLC0415

    try:
        return asyncio.run(work)
    except (BadCondition, BadParameter, NoConditions, RunLost) as error:
        raise Problem(str(error)) from error


def _exit_code(status: RunbookRunStatus, wanted: str) -> int:
    return 0 if status.phase == wanted else ANSWER_IS_NO


def _pairs(words: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise Problem(f"write {option} NAME=VALUE, not {word!r}")
        pairs[name] = value
    return pairs


def _answers(words: Sequence[str]) -> dict[str, str]:
    answers = _pairs(words, "--answer")
    if wrong := [step for step, answer in answers.items() if answer not in ("yes", "no")]:
        raise Problem(f"answer step {wrong[0]} with yes or no")
    return answers


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


app = make_app()
