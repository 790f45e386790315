"""Words and helpers that the remedies of all rules share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fathom.model.quantity import BINARY, of_milli, of_value
from fathom.schedule.decide.rows import Rows
from fathom.schedule.decide.shape import CPU, MEMORY
from fathom.schedule.decide.trial import WISH, Effect, Remedy, Trial

OWNER, OPERATOR, TENANT_ADMIN = "the pod's owner", "a cluster operator", "whoever grants the tenant's quota"

# At most so many different taints, selectors or pods are tried, or named, one by one.
TRIED_MAX, NAMED_MAX = 16, 3


def lifted(rule: str) -> Callable[[Trial], Iterator[Remedy]]:
    """The remedy for a rule that offers none itself: names the nodes that it alone rejects."""

    def remedy(trial: Trial) -> Iterator[Remedy]:
        effect = Effect(lifts=(rule,))
        rows = trial.opened_by(effect)
        text = f"rule {rule} alone rejects {one_of(rows)}"
        yield from if_any(rule, rows, text, OPERATOR, effort=WISH, effect=effect)

    return remedy


def if_any(
    rule: str,
    rows: Rows,
    text: str,
    by: str,
    *,
    effort: int,
    effect: Effect,
    amount: int = 0,
    about: tuple[str, ...] = (),
    count: int = 1,
) -> Iterator[Remedy]:
    if len(rows):
        yield Remedy(
            rule, text, by, len(rows), effort, amount, rows.names[0], about, count=count, effect=effect
        )


def alive(trial: Trial) -> Iterable[int]:
    return [trial.only] if trial.only is not None else trial.table.row_of.values()


def nodes_text(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def one_of(rows: Rows) -> str:
    """'node-1', or 'one of 3 nodes (such as node-1)'."""
    if not len(rows):
        return "no node"
    return rows.names[0] if len(rows) == 1 else f"one of {len(rows)} nodes (such as {rows.names[0]})"


def shown(resource: str, amount: int) -> str:
    if resource == CPU:
        return str(of_milli(amount))
    return str(of_value(amount, BINARY if resource == MEMORY else "DecimalSI"))
