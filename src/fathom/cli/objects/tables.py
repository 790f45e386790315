"""Tables of objects as the server prints them (`kind: Table`), in kubectl's columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fathom.cli.tables import natural

Obj = dict[str, Any]

AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
NONE = "<none>"
WIDTH_MIN, GAP = 6, 3
IN_ORDER_OF_TIME = frozenset({"Event"})


class TableOptions(msgspec.Struct, frozen=True, kw_only=True):
    wide: bool = False
    with_namespace: bool = False
    with_labels: bool = False
    label_columns: tuple[str, ...] = ()
    prefix: str = ""  # Before each name: 'pod/', where there are several kinds.


class Columns(msgspec.Struct, frozen=True):
    """Which cells of a row are shown, and under which head."""

    heads: tuple[str, ...]
    cells: tuple[int, ...]
    options: TableOptions

    def row(self, row: Obj) -> list[str]:
        meta = (row.get("object") or {}).get("metadata") or {}
        shown = [cell_text((row.get("cells") or [])[at : at + 1]) for at in self.cells]
        if shown:
            shown[0] = self.options.prefix + shown[0]
        labels = meta.get("labels") or {}
        shown += [str(labels.get(name, "")) for name in self.options.label_columns]
        if self.options.with_labels:
            shown.append(",".join(f"{name}={labels[name]}" for name in sorted(labels)) or NONE)
        return [str(meta.get("namespace") or ""), *shown] if self.options.with_namespace else shown


def columns_of(table: Obj, options: TableOptions) -> Columns:
    definitions = table.get("columnDefinitions") or []
    shown = [at for at, column in enumerate(definitions) if options.wide or not column.get("priority")]
    heads = [str(definitions[at].get("name") or "").upper() for at in shown]
    heads += [label.rpartition("/")[2].upper() for label in options.label_columns]
    heads += ["LABELS"] if options.with_labels else []
    heads = ["NAMESPACE", *heads] if options.with_namespace else heads
    return Columns(tuple(heads), tuple(shown), options)


def sorted_rows(table: Obj, kind: str) -> list[Obj]:
    """By name, node-2 before node-10; Events as the server lists them."""
    rows: list[Obj] = table.get("rows") or []
    return rows if kind in IN_ORDER_OF_TIME else sorted(rows, key=_by_name)


def _by_name(row: Obj) -> Any:
    meta = (row.get("object") or {}).get("metadata") or {}
    return natural(str(meta.get("namespace") or "")), natural(str(meta.get("name") or ""))


def cell_text(cell: Sequence[Any]) -> str:
    """The first line of a cell."""
    value = cell[0] if cell else None
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    first, more, _ = str(value).partition("\n")
    return f"{first}..." if more else first


def widths_of(rows: Sequence[Sequence[str]], gap: int = GAP) -> list[int]:
    return [max(WIDTH_MIN, max(map(len, column)) + gap) for column in zip(*rows, strict=True)]


def aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """A longer cell moves what follows it."""
    *cells, last = row
    return (
        "".join(
            f"{cell:<{width}}" if len(cell) < width else f"{cell}{'':{GAP}}"
            for cell, width in zip(cells, widths, strict=False)
        )
        + last
    )


def aligned_lines(rows: Sequence[Sequence[str]], gap: int = GAP) -> list[str]:
    widths = widths_of(rows, gap) if rows else []
    return [aligned(row, widths) for row in rows]
