"""`fathom runbook approve`: a second person decides about a run that a program asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.steer.runbook import RunName, Yes
from fathom.terminal import say

if TYPE_CHECKING:
    from fathom.kinds.runbook_run import RunbookRun

Obj = dict[str, Any]


def approve(
    run_name: RunName,
    /,
    *,
    refuse: Annotated[bool, Parameter(negative=(), help="Refuse it instead.")] = False,
    yes: Yes = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Approve a run that a program, such as an assistant, asked for in the name of somebody else, or refuse
    it. Nothing is carried out by that: somebody does with `fathom runbook resume`.

    Prints who has approved or refused it.

    fathom runbook approve drain-1 -n fathom-system
    fathom runbook approve drain-1 -n fathom-system --refuse --yes
    """
    from fathom.cli.ask.explanations import ApiServer  # noqa: PLC0415
    from fathom.cli.confirmation import confirm, place_of, require_terminal  # noqa: PLC0415  # See the package's docstring.
    from fathom.cli.steer.own_objects import OwnKind, OwnObjects  # noqa: PLC0415
    from fathom.kinds.runbook_run import RunbookRun  # noqa: PLC0415
    from fathom.kinds.shape import read  # noqa: PLC0415

    file, where = found_kubeconfig(kubeconfig), chosen_namespace(namespace, kubeconfig)
    kind = OwnKind("RunbookRun", "runbookruns", "fathom runbook list --runs", lists_all=True)
    runs = OwnObjects(ApiServer(file), kind)
    obj = runs.get(where, run_name)
    run = read(RunbookRun, obj)
    asked = run.status.approval
    if asked is None or not asked.required:
        raise Problem(
            f"run {where}/{run_name} needs no approval: nothing was changed", exit_code=ANSWER_IS_NO
        )
    if not refuse:
        check_parameters(run)
    if not yes:
        require_terminal()
    say(f"context {place_of(file)}", *proposal_lines(run), err=True)
    confirm(f"{'Refuse' if refuse else 'Approve'} this run?", yes=yes)
    patch = {"status": {"approval": {"approved": not refuse, "specHash": asked.spec_hash}}}
    decided = read(RunbookRun, runs.patch_same_spec(where, obj, patch, subresource="approval"))
    by = decided.status.approval.approver if decided.status.approval else ""
    say(f"run {where}/{run_name} {'refused' if refuse else 'approved'} by {by}")
    if not refuse:
        say(f"nothing was carried out yet: fathom runbook resume {run_name} -n {where}", err=True)
    return 0


def check_parameters(run: RunbookRun) -> None:
    """Raises Problem: nobody could carry the run out."""
    from fathom.steer.templates import BadParameter, run_parameters  # noqa: PLC0415

    try:
        run_parameters(run)
    except BadParameter as error:
        meta = run.metadata
        refusal = f"fathom runbook approve {meta.name} -n {meta.namespace} --refuse"
        raise Problem(f"{error}; refuse it with `{refusal}`, and ask for another") from error


def proposal_lines(run: RunbookRun) -> list[str]:
    """What somebody is asked to approve, and the hash of its spec."""
    meta, spec, status = run.metadata, run.spec, run.status
    through = f", through {spec.requested_through}" if spec.requested_through else ""
    spec_hash = status.approval.spec_hash if status.approval else ""
    return [
        f"run {meta.namespace}/{meta.name} of {spec.runbook.name} ({spec.runbook.source}), version"
        f" {spec.runbook.version}",
        f"asked by {status.author}{through}",
        *([f"reason: {spec.reason}"] if spec.reason else []),
        *_step_lines(run),
        f"spec hash {spec_hash}",
    ]


def _step_lines(run: RunbookRun) -> list[str]:
    """Also of a run that can only be refused."""
    from fathom.cli.steer.runbooks import planned_steps  # noqa: PLC0415
    from fathom.steer.templates import BadParameter  # noqa: PLC0415

    try:
        return planned_steps(run)
    except BadParameter as error:
        return [str(error)]
