"""`fathom repair`: list proposals that need approval, and approve or refuse them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from fathom.cli.confirmation import confirm, place_of, require_terminal
from fathom.cli.documents import print_documents
from fathom.cli.output import output_parameter, print_document
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.tables import age, by_name, say_table
from fathom.model.times import moment_ns
from fathom.terminal import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fathom.cli.steer.own_objects import OwnObjects

Obj = dict[str, Any]

Name = Annotated[str, Parameter(help="Name of the RepairProposal.")]
Yes = Annotated[bool, Parameter(name=("--yes", "-y"), negative=(), help="Do not ask for confirmation.")]
COLUMNS = ("NAMESPACE", "NAME", "SUBJECT", "ACTION", "PHASE", "APPROVER")
WIDE_COLUMNS = ("PROBLEM", "AGE")
EVIDENCE = "EVIDENCE"  # The last column, as it is the longest.

HELP = """List, approve or refuse what repair proposes.

fathom repair list
fathom repair approve web-1 -n shop
"""


def make_app() -> App:
    app = App(name="repair", help=HELP)
    app.command(list_proposals, name="list")
    app.command(approve)
    app.command(refuse)
    return app


def list_proposals(
    *,
    namespace: Annotated[
        str,
        Parameter(
            name=("--namespace", "-n"), help="Only proposals of this namespace. Default: all namespaces."
        ),
    ] = "",
    every: Annotated[
        bool, Parameter(name="--all", negative=(), help="Also list proposals that are done or obsolete.")
    ] = False,
    output: Annotated[
        str,
        output_parameter(
            "wide",
            "json",
            "yaml",
            "name",
            help="wide: also problem, age and all evidence. json: a list. yaml, name: as kubectl.",
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """List open repair proposals of all namespaces, with their evidence.

    Prints a table with a row for each proposal.

    fathom repair list
    fathom repair list --all -n shop  also those that are over
    """
    from fathom.kinds.repair_proposal import OVER  # noqa: PLC0415  # See the package's docstring.
    from fathom.seams.outside import SystemClock  # noqa: PLC0415

    listed = _proposals(kubeconfig).list(namespace)
    proposals = [obj for obj in listed if every or (obj.get("status") or {}).get("phase") not in OVER]
    if output == "json":
        print_document(proposals, output)
    elif output and output != "wide":
        print_documents(proposals, output, as_list=True)
    elif proposals:
        say_table(list_rows(proposals, now_ns=SystemClock().now_ns(), wide=output == "wide"))
    else:
        say("there are no proposals" if every else "there are no open proposals")
    return 0


def approve(
    name: Name, /, *, namespace: Namespace = "", yes: Yes = False, kubeconfig: Kubeconfig = None
) -> int:
    """Approve a proposal. Repair carries it out if its evidence still holds.

    Prints what was approved, and by whom.

    fathom repair approve web-1
    fathom repair approve web-1 -n shop --yes
    """
    return _decide(name, namespace, kubeconfig, approved=True, yes=yes)


def refuse(
    name: Name, /, *, namespace: Namespace = "", yes: Yes = False, kubeconfig: Kubeconfig = None
) -> int:
    """Refuse a proposal. The refusal stands as long as the object exists.

    Prints what was refused, and by whom.

    fathom repair refuse web-1
    fathom repair refuse web-1 -n shop --yes
    """
    return _decide(name, namespace, kubeconfig, approved=False, yes=yes)


def _decide(name: str, namespace: str, kubeconfig: Path | None, *, approved: bool, yes: bool) -> int:
    """The spec of a proposal never changes, so what is shown is what is decided about."""
    proposals, namespace = _proposals(kubeconfig), chosen_namespace(namespace, kubeconfig)
    proposal = proposals.get(namespace, name)
    if not yes:
        require_terminal()
        say(f"context    {place_of(found_kubeconfig(kubeconfig))}", *proposal_lines(proposal), err=True)
    confirm(f"{'Approve' if approved else 'Refuse'} this proposal?", yes=yes)
    decision = {"status": {"approved": approved}}
    decided = proposals.patch_same_spec(namespace, proposal, decision, subresource="approval")
    spec, status = decided["spec"], decided["status"]
    word = "approved" if approved else "refused"
    say(f"{namespace}/{name}: {spec['action']} {_subject(spec)} is {word} by {status['approver']}")
    return 0


def _proposals(kubeconfig: Path | None) -> OwnObjects:
    from fathom.cli.ask.explanations import ApiServer  # noqa: PLC0415
    from fathom.cli.steer.own_objects import OwnKind, OwnObjects  # noqa: PLC0415

    kind = OwnKind("RepairProposal", "repairproposals", "fathom repair list", lists_all=True)
    return OwnObjects(ApiServer(found_kubeconfig(kubeconfig)), kind)


def proposal_lines(proposal: Obj) -> list[str]:
    meta, spec = proposal["metadata"], proposal.get("spec") or {}
    return [
        f"proposal   {meta.get('namespace')}/{meta['name']}",
        f"problem    {spec.get('problem')}",
        f"action     {spec.get('action')} {_subject(spec)}",
        *(f"evidence   {line}" for line in _evidence(spec)),
    ]


def _evidence(spec: Obj) -> list[str]:
    return [
        f"{item['source']}: {item.get('message')}" if item.get("source") else str(item.get("message"))
        for item in spec.get("evidence") or ()
    ]


def list_rows(proposals: Sequence[Obj], *, now_ns: int, wide: bool = False) -> list[tuple[str, ...]]:
    """The head, and a row for each proposal."""
    head = (*COLUMNS, *(WIDE_COLUMNS if wide else ()), EVIDENCE)
    return [head, *(_row(proposal, now_ns, wide=wide) for proposal in sorted(proposals, key=by_name))]


def _row(proposal: Obj, now_ns: int, *, wide: bool) -> tuple[str, ...]:
    meta, spec, status = proposal["metadata"], proposal.get("spec") or {}, proposal.get("status") or {}
    first_columns = (meta.get("namespace", ""), meta["name"], _subject(spec), str(spec.get("action") or ""))
    columns = (*first_columns, str(status.get("phase") or ""), str(status.get("approver") or ""))
    if wide:
        created_ns = moment_ns(meta.get("creationTimestamp")) or now_ns
        return (*columns, str(spec.get("problem") or ""), age(created_ns, now_ns), "; ".join(_evidence(spec)))
    return (*columns, "; ".join(str(item.get("message")) for item in (spec.get("evidence") or ())[:1]))


def _subject(spec: Obj) -> str:
    subject = spec.get("subject") or {}
    return f"{str(subject.get('kind') or '').lower()}/{subject.get('name') or ''}"


app = make_app()
