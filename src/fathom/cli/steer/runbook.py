"""`fathom runbook`: list, show, plan and run runbooks; resume, abort and report runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from fathom.cli.output import output_parameter, print_document
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.status_line import waiting
from fathom.cli.tables import natural, say_table
from fathom.terminal import say, say_document

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from pathlib import Path
    from typing import Any

    from fathom.kinds.runbook_run import RunbookRunStatus

RunbookName = Annotated[str, Parameter(help="Name of a runbook, of the library or in the namespace.")]
RunName = Annotated[
    str, Parameter(name="RUN", help="Name of the run, as `fathom runbook list --runs` shows it.")
]
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

HELP = """Carry out runbooks: procedures with conditions, steps that can be undone, and a record.

fathom runbook list  the library, and those of the cluster
fathom runbook show drain-zone  what one does, and how each step is undone
"""


def make_app() -> App:
    app = App(
        name="runbook",
        help=HELP,
    )
    app.command(list_runbooks, name="list")
    app.command(show)
    app.command(plan)
    app.command(run)
    app.command("fathom.cli.steer.runbook_approval:approve", name="approve")
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
        str,
        output_parameter(
            "wide",
            "json",
            "yaml",
            "name",
            help="wide: also what they need to be told, of runs reason and age. json: a list. yaml, name: as"
            " kubectl.",
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """List the runbooks of the library and those stored in the cluster, or the runs.

    Prints a table with a row for each.

    fathom runbook list
    fathom runbook list --runs -n shop
    """
    from fathom.cli.documents import print_documents  # noqa: PLC0415  # See the package's docstring.
    from fathom.cli.steer.runbooks import RUN_COLUMNS, RUNBOOK_COLUMNS, listed, widened  # noqa: PLC0415

    rows, objects = asyncio.run(listed(found_kubeconfig(kubeconfig), namespace, runs=runs))
    head: tuple[str, ...] = RUN_COLUMNS if runs else RUNBOOK_COLUMNS
    if output == "wide":
        head, rows = widened(rows, objects, runs=runs)
    if output == "json":
        print_document(objects, output)
    elif output and output != "wide":
        print_documents(objects, output, as_list=True)
    elif rows:
        ordered = sorted(rows, key=lambda row: natural(" ".join(row[:2])))
        say_table([head, *ordered])
    else:
        say("there are no runs" if runs else "there are no runbooks")
    return 0


def show(
    name: RunbookName,
    /,
    *,
    namespace: Namespace = "",
    output: Annotated[str, output_parameter("json", "yaml", "name", help="The Runbook as an object.")] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show what a runbook needs, checks and does, and how each step is undone.

    Prints its parameters, its conditions and its steps; with -o, the Runbook as an object.

    fathom runbook show drain-zone
    fathom runbook show drain-zone -o yaml  to write your own
    """
    from fathom.cli.documents import name_of  # noqa: PLC0415
    from fathom.cli.steer.runbook_plans import runbook_lines, runbook_object  # noqa: PLC0415

    if output:
        obj = awaited(runbook_object(*_place(kubeconfig, namespace), name))
        if output == "name":
            say(name_of(obj))
        else:
            print_document(obj, output)
    else:
        say(*awaited(runbook_lines(*_place(kubeconfig, namespace), name)))
    return 0


def plan(
    name: RunbookName,
    /,
    *,
    settings: Settings = (),
    namespace: Namespace = "",
    output: Annotated[
        str,
        output_parameter("json", "yaml", "name", help="json, yaml: the plan as a document. name: its steps."),
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show each step with its values, judge the preconditions now, and try the steps in forks of the cluster.
    Nothing is written. Exits with 1 if a precondition does not hold.

    Prints a line for each condition and each step, then what would become of the cluster.

    fathom runbook plan drain-zone -n fathom-system --set zone=zone-a --set reason=power
    fathom runbook plan drain-zone -n fathom-system --set zone=zone-a --set reason=power -o json
    """
    from fathom.cli.steer.runbook_plans import planned  # noqa: PLC0415

    parameters = _pairs(settings, "--set")
    with waiting("judging preconditions, and trying the steps in forks of the cluster", quiet=bool(output)):
        plan = awaited(planned(*_place(kubeconfig, namespace), name, parameters))
    if output == "name":
        say(*(step["id"] for step in plan.document["steps"]))
    elif output:
        print_document(plan.document, output)
    else:
        say(*plan.lines)
    return 0 if plan.ready else ANSWER_IS_NO


def run(
    name: RunbookName,
    /,
    *,
    settings: Settings = (),
    namespace: Namespace = "",
    run_name: Annotated[
        str, Parameter(name="--name", help="Name of the run. Default: the runbook's, and five letters.")
    ] = "",
    reason: Annotated[str, Parameter(help="Why it is run: for the record.")] = "",
    answers: Answers = (),
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Carry out a runbook with your own credentials, and keep its record in the cluster. Exits with 1 if the
    run did not succeed.

    Prints the plan, then each step as it is done.

    fathom runbook run drain-zone -n fathom-system --set zone=zone-a --set reason=power
    fathom runbook run drain-zone -n fathom-system --set zone=zone-a --set reason=power --yes --name drain-1
    """
    from fathom.cli.steer.runbooks import RunRequest, start_run  # noqa: PLC0415

    request = RunRequest(
        runbook=name,
        namespace=chosen_namespace(namespace, kubeconfig),
        parameters=_pairs(settings, "--set"),
        name=run_name,
        reason=reason,
        answers=_answers(answers),
        yes=yes,
    )
    return _exit_code(awaited(start_run(found_kubeconfig(kubeconfig), request)), "Succeeded")


def resume(
    run_name: RunName,
    /,
    *,
    namespace: Namespace = "",
    answers: Answers = (),
    take_over: Annotated[
        bool, Parameter(negative=(), help="Also if another client seems to be at work on the run.")
    ] = False,
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Go on with a run that was left or has stopped, whoever began it; if somebody else did, its steps are
    shown first, since they are done with your rights. What was done is found by reading, and is not repeated.
    Exits with 1 if the run did not succeed.

    Prints each step as it is done.

    fathom runbook resume drain-1 -n fathom-system
    fathom runbook resume drain-1 -n fathom-system --take-over --answer finished=yes
    """
    from fathom.cli.steer.runbooks import resume_run  # noqa: PLC0415

    status = awaited(
        resume_run(
            found_kubeconfig(kubeconfig),
            chosen_namespace(namespace, kubeconfig),
            run_name,
            _answers(answers),
            take_over=take_over,
            yes=yes,
        )
    )
    return _exit_code(status, "Succeeded")


def abort(
    run_name: RunName,
    /,
    *,
    namespace: Namespace = "",
    reason: Annotated[str, Parameter(help="Why it is aborted: for the record.")] = "",
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Undo a run, from its last step to its first, whatever state it is in. The client that carries it out
    stops. Exits with 1 if something could not be undone.

    Prints each step as it is undone.

    fathom runbook abort drain-1 -n fathom-system
    fathom runbook abort drain-1 -n fathom-system --yes --reason 'the zone is well'
    """
    from fathom.cli.steer.runbooks import abort_run  # noqa: PLC0415

    status = awaited(abort_run(*_place(kubeconfig, namespace), run_name, reason, yes=yes))
    return _exit_code(status, "Aborted")


def report(
    run_name: RunName,
    /,
    *,
    namespace: Namespace = "",
    output: Annotated[str, output_parameter("json", "yaml", "name", help="The run as an object.")] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Print the record of a run as Markdown: who did what and when, with evidence, and what the audit log
    does not confirm.

    With -o, prints the RunbookRun itself.

    fathom runbook report drain-1 -n fathom-system
    fathom runbook report drain-1 -n fathom-system -o yaml
    """
    from fathom.cli.documents import print_documents  # noqa: PLC0415
    from fathom.cli.steer.runbooks import report_of, run_object  # noqa: PLC0415

    if output:
        print_documents(
            [awaited(run_object(*_place(kubeconfig, namespace), run_name))],
            output,
        )
        return 0
    say_document(awaited(report_of(*_place(kubeconfig, namespace), run_name)))
    return 0


def _place(kubeconfig: Path | None, namespace: str) -> tuple[Path | None, str]:
    return found_kubeconfig(kubeconfig), chosen_namespace(namespace, kubeconfig)


def awaited(work: Coroutine[Any, Any, Any]) -> Any:
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


app = make_app()
