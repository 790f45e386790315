"""`fathom override review`: uses of break-glass that somebody else has to look at, and what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fathom.cli.confirmation import confirm, place_of, require_terminal
from fathom.cli.documents import name_of, print_documents
from fathom.cli.output import output_parameter
from fathom.cli.places import Kubeconfig, Namespace, found_kubeconfig
from fathom.cli.problem import Problem
from fathom.cli.steer.override import Yes
from fathom.cli.tables import age, say_table
from fathom.model.times import moment_ns
from fathom.terminal import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fathom.cli.steer.own_objects import OwnObjects

Obj = dict[str, Any]

CLOSED = "Closed"
COLUMNS = ("NAMESPACE", "NAME", "OVERRIDE", "AUTHOR", "ROLE", "ENDS", "PHASE", "REVIEWER")
WIDE_COLUMNS = ("REASON", "FINDINGS")


def review(
    name: Annotated[str, Parameter(help="Name of the review. Default: list them.", show_default=False)] = "",
    /,
    *,
    close: Annotated[bool, Parameter(negative=(), help="The use was in order: close the review.")] = False,
    dispute: Annotated[bool, Parameter(negative=(), help="The use was not in order.")] = False,
    findings: Annotated[
        str, Parameter(help="What you found; needed with --dispute.", show_default=False)
    ] = "",
    every: Annotated[bool, Parameter(name="--all", negative=(), help="Also list closed reviews.")] = False,
    yes: Yes = False,
    namespace: Namespace = "",
    everywhere: Annotated[
        bool, Parameter(name=("--all-namespaces", "-A"), negative=(), help="Of all namespaces.")
    ] = False,
    output: Annotated[
        str,
        output_parameter(
            "wide", "json", "yaml", "name", help="wide: also reason and findings. Others: the objects."
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """List open reviews of break-glass, show one, or close one of somebody else's.

    Prints a table of the reviews; of a named one, what was done with the extra rights.

    fathom override review -A
    fathom override review night-1 --close
    fathom override review night-1 --dispute --findings 'it was not urgent'
    """
    if close and dispute:
        raise Problem("a review is closed or disputed, not both")
    if (close or dispute or findings) and not name:
        raise Problem("name the review that you have made: `fathom override review NAME --close`")
    if dispute and not findings.strip():
        raise Problem("--dispute needs --findings: what was not in order")
    if findings and not (close or dispute):
        raise Problem("say with --close or --dispute what you decide")
    from fathom.cli.ask.explanations import ApiServer  # noqa: PLC0415  # See the package's docstring.
    from fathom.cli.steer.own_objects import OwnKind, OwnObjects  # noqa: PLC0415

    file = found_kubeconfig(kubeconfig)
    place = place_of(file)
    kind = OwnKind("OverrideReview", "overridereviews", "fathom override review")
    reviews = OwnObjects(ApiServer(file), kind)
    where = namespace or place.namespace or "default"
    if not name:
        return _print_list(reviews.list("" if everywhere else where), output, every=every)
    obj = reviews.get(where, name)
    if close or dispute:
        return _decide(reviews, where, obj, approved=close, findings=findings, place=str(place), yes=yes)
    if output and output != "wide":
        print_documents([obj], output)
    else:
        say(*review_lines(obj))
    return 0


def _print_list(objs: Sequence[Obj], output: str, *, every: bool) -> int:
    shown = [obj for obj in objs if every or _status(obj).get("phase") != CLOSED]
    if output and output != "wide":
        print_documents(shown, output, as_list=True)
    elif shown and output:
        say_table([(*COLUMNS, *WIDE_COLUMNS), *((*_row(obj), *_wide_cells(obj)) for obj in shown)])
    elif shown:
        say_table([COLUMNS, *map(_row, shown)])
    else:
        say(f"there are no {'' if every else 'open '}reviews", err=True)
    return 0


def _decide(
    reviews: OwnObjects, namespace: str, obj: Obj, *, approved: bool, findings: str, place: str, yes: bool
) -> int:
    if not yes:
        require_terminal()
    say(f"context {place}", *review_lines(obj), err=True)
    confirm(f"{'Close' if approved else 'Dispute'} this review?", yes=yes)
    status = {"approved": approved, **({"findings": findings} if findings else {})}
    decided = reviews.patch_same_spec(namespace, obj, {"status": status}, subresource="approval")
    by = _status(decided).get("approver")
    say(f"{name_of(decided)} {'closed' if approved else 'disputed'}{f' by {by}' if by else ''}")
    return 0


def review_lines(obj: Obj) -> list[str]:
    spec, status = obj.get("spec") or {}, _status(obj)
    override = spec.get("override") or {}
    reviewer, meta = status.get("approver"), obj["metadata"]
    return [
        f"review {meta.get('namespace')}/{meta['name']}: {status.get('phase') or 'Open'}",
        f"  override  {override.get('namespace')}/{override.get('name')}",
        f"  author    {spec.get('author')}",
        f"  role      ClusterRole {spec.get('role')}",
        f"  why       {spec.get('reason')}",
        f"  time      {spec.get('startsAt')} to {spec.get('endsAt')}",
        *([f"  reviewer  {reviewer}, at {status.get('approvedAt')}"] if reviewer else []),
        *([f"  findings  {status['findings']}"] if status.get("findings") else []),
    ]


def _row(obj: Obj) -> tuple[str, ...]:
    from fathom.cli.steer.override_actions import now_ns  # noqa: PLC0415  # See the package's docstring.

    meta, spec, status = obj["metadata"], obj.get("spec") or {}, _status(obj)
    return (
        str(meta.get("namespace") or ""),
        str(meta["name"]),
        str((spec.get("override") or {}).get("name") or ""),
        str(spec.get("author") or ""),
        str(spec.get("role") or ""),
        ends_text(spec.get("endsAt"), now_ns()),
        str(status.get("phase") or "Open"),
        str(status.get("approver") or "-"),
    )


def ends_text(time: object, now_ns: int) -> str:
    """'in 9m', '4m ago'"""
    ends_ns = moment_ns(time)
    if ends_ns is None:
        return "-"
    return f"in {age(now_ns, ends_ns)}" if ends_ns > now_ns else f"{age(ends_ns, now_ns)} ago"


def _wide_cells(obj: Obj) -> tuple[str, ...]:
    return str((obj.get("spec") or {}).get("reason") or ""), str(_status(obj).get("findings") or "")


def _status(obj: Obj) -> Obj:
    return obj.get("status") or {}
