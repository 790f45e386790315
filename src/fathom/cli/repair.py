"""`fathom repair`: list proposals that need approval, and approve or refuse them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from fathom.cli.kubeconfig import found_kubeconfig
from fathom.terminal import say, say_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fathom.model.objects import Obj

Name = Annotated[str, Parameter(help="Name of the RepairProposal.")]
Namespace = Annotated[str, Parameter(name=("--namespace", "-n"), help="Namespace of the proposal.")]
Kubeconfig = Annotated[
    Path | None,
    Parameter(help="Kubeconfig file. Default: $KUBECONFIG, else .fathom/kubeconfig, else kubectl's."),
]
COLUMNS = ("NAMESPACE", "NAME", "SUBJECT", "ACTION", "PHASE", "APPROVER", "EVIDENCE")


def make_app() -> App:
    app = App(name="repair", help="List, approve or refuse what repair proposes.")
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
        Literal["", "json"], Parameter(name=("--output", "-o"), help="json: print a JSON list.")
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """List open repair proposals of all namespaces, with their evidence."""
    import msgspec  # noqa: PLC0415  # See the package's docstring.

    from fathom.cli.proposals import fetch_proposals  # noqa: PLC0415

    proposals = asyncio.run(fetch_proposals(found_kubeconfig(kubeconfig), namespace, every=every))
    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(proposals), indent=2).decode())
    else:
        say(*(_table([COLUMNS, *map(_row, proposals)]) if proposals else ["there are no open proposals"]))
    return 0


def approve(name: Name, /, *, namespace: Namespace = "default", kubeconfig: Kubeconfig = None) -> int:
    """Approve a proposal. Repair carries it out if its evidence still holds."""
    return _decide(name, namespace, kubeconfig, approved=True)


def refuse(name: Name, /, *, namespace: Namespace = "default", kubeconfig: Kubeconfig = None) -> int:
    """Refuse a proposal. The refusal stands as long as the object exists."""
    return _decide(name, namespace, kubeconfig, approved=False)


def _decide(name: str, namespace: str, kubeconfig: Path | None, *, approved: bool) -> int:
    from fathom.cli.proposals import decide  # noqa: PLC0415

    decided = asyncio.run(decide(found_kubeconfig(kubeconfig), namespace, name, approved=approved))
    spec, status = decided["spec"], decided["status"]
    word = "approved" if approved else "refused"
    say(f"{namespace}/{name}: {spec['action']} {_subject(spec)} is {word} by {status['approver']}")
    return 0


def _row(proposal: Obj) -> tuple[str, ...]:
    meta, spec, status = proposal["metadata"], proposal.get("spec") or {}, proposal.get("status") or {}
    evidence = "; ".join(str(item.get("message")) for item in (spec.get("evidence") or ())[:1])
    first_columns = (meta.get("namespace", ""), meta["name"], _subject(spec), str(spec.get("action") or ""))
    return (*first_columns, str(status.get("phase") or ""), str(status.get("approver") or ""), evidence)


def _subject(spec: Obj) -> str:
    subject = spec.get("subject") or {}
    return f"{str(subject.get('kind') or '').lower()}/{subject.get('name') or ''}"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


app = make_app()
