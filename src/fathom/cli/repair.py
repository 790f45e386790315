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

Name = Annotated[str, Parameter(help="The RepairProposal's name.")]
Namespace = Annotated[str, Parameter(name=("--namespace", "-n"), help="The proposal's namespace.")]
Kubeconfig = Annotated[Path | None, Parameter(help="Default: where kubectl looks, or .fathom/kubeconfig.")]
COLUMNS = ("NAMESPACE", "NAME", "SUBJECT", "ACTION", "PHASE", "APPROVER", "EVIDENCE")


def make_app() -> App:
    app = App(name="repair", help="What repair proposes, and a person's decision about it.")
    app.command(list_proposals, name="list")
    app.command(approve)
    app.command(refuse)
    return app


def list_proposals(
    *,
    namespace: Annotated[str, Parameter(name=("--namespace", "-n"), help="Only of this one.")] = "",
    every: Annotated[bool, Parameter(name="--all", negative=(), help="Those that are over too.")] = False,
    output: Annotated[Literal["", "json"], Parameter(name=("--output", "-o"))] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Proposals that are not over, of all namespaces, with what repair has seen."""
    import msgspec  # noqa: PLC0415  # See the room's docstring.

    from fathom.cli.proposals import fetch_proposals  # noqa: PLC0415

    proposals = asyncio.run(fetch_proposals(found_kubeconfig(kubeconfig), namespace, every=every))
    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(proposals), indent=2).decode())
    else:
        say(*(_table([COLUMNS, *map(_row, proposals)]) if proposals else ["nothing waits for a decision"]))
    return 0


def approve(name: Name, /, *, namespace: Namespace = "default", kubeconfig: Kubeconfig = None) -> int:
    """Have repair do what it proposes. It looks once more before it does."""
    return _decide(name, namespace, kubeconfig, approved=True)


def refuse(name: Name, /, *, namespace: Namespace = "default", kubeconfig: Kubeconfig = None) -> int:
    """Have repair leave it alone. The refusal stands as long as the subject is there."""
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
