"""Some rows of the table, as rules read them; and the reasons of a pass, with their codes.

A rule judges all rows at once, or the few that changed. It reads columns through this class and returns one
value per row, so it need not know which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fathom.model.selectors import EXISTS, GREATER, IN, LESS, NOT_IN, Requirement
from fathom.model.selectors import MISSING as OPERATOR_MISSING
from fathom.schedule.decide.node_columns import MISSING, Bools, Ids, Ints, LabelColumn
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.shape import NodeTerm, Pairs
from fathom.schedule.decide.verdicts import CODES_MAX, Codes, Reason


class Rows:
    def __init__(self, table: NodeTable, rows: NDArray[np.intp] | None = None) -> None:
        self.table = table
        self.whole = rows is None  # All rows, in order, gaps included.
        self.index: slice | NDArray[np.intp] = slice(0, table.height) if rows is None else rows
        self.size = table.height if rows is None else int(rows.size)

    def __len__(self) -> int:
        return self.size

    @property
    def names(self) -> list[str]:
        return self.table.names if self.whole else [self.table.names[row] for row in self.numbers()]

    def numbers(self) -> list[int]:
        return list(range(self.size)) if isinstance(self.index, slice) else self.index.tolist()

    def position(self, row: int) -> int | None:
        """The position of a table row among these rows."""
        if isinstance(self.index, slice):
            return row if row < self.size else None
        positions = np.flatnonzero(self.index == row)
        return int(positions[0]) if positions.size else None

    def yes(self) -> Bools:
        return np.ones(self.size, dtype=np.bool_)

    def no(self) -> Bools:
        return np.zeros(self.size, dtype=np.bool_)

    def codes(self) -> Codes:
        return np.zeros(self.size, dtype=np.uint8)

    def label_ids(self, key: str) -> Ids:
        """One id per row, into `label_values(key)`; 0 where the node does not have the label."""
        return self.table.label_column(key).ids[self.index]

    def label_values(self, key: str) -> list[str]:
        return self.table.label_column(key).values

    def labels(self, key: str) -> list[str | None]:
        """The label's value on each row. Slower than ids: meant for users' own rules."""
        values = self.label_values(key)
        return [values[value_id] if value_id else None for value_id in self.label_ids(key).tolist()]

    def amounts(self, resource: str) -> tuple[Ints, Ints]:
        """Allocatable and requested amounts per row; CPU in thousandths, the rest in ones."""
        column = self.table.resources.get(resource)
        if column is None:
            return np.zeros(self.size, dtype=np.int64), np.zeros(self.size, dtype=np.int64)
        table = self.table
        return table.allocatable[self.index, column], table.tally.requested[self.index, column]

    def matching(self, terms: tuple[NodeTerm, ...]) -> Bools:
        """The rows where one of the terms matches."""
        matched = self.no()
        for term in terms:
            matched |= self._term(term)
        return matched

    def having(self, pairs: Pairs) -> Bools:
        """The rows whose labels have these values."""
        matched = self.yes()
        for key, value in pairs:
            wanted = self.table.label_column(key).id_of(value)
            matched &= self.label_ids(key) == wanted if wanted is not None else self.no()
        return matched

    def named(self, name: str) -> Bools:
        matched = self.no()
        row = self.table.row_of.get(name)
        position = None if row is None else self.position(row)
        if position is not None:
            matched[position] = True
        return matched

    def _term(self, term: NodeTerm) -> Bools:
        if not term.labels and not term.fields:
            return self.no()
        matched = self.yes()
        for requirement in term.labels:
            column = self.table.label_column(requirement.key)
            matched &= accepted(requirement, column)[self.label_ids(requirement.key)]
        for requirement in term.fields:
            matched &= self._field(requirement)
        return matched

    def _field(self, requirement: Requirement) -> Bools:
        """Match a field: metadata.name is the only one; any other is empty on every node."""
        if requirement.key != "metadata.name":
            return self.yes() if requirement.matches({requirement.key: ""}) else self.no()
        named = self.no()
        for name in requirement.values:
            named |= self.named(name)
        return ~named if requirement.operator == NOT_IN else named


def accepted(requirement: Requirement, column: LabelColumn) -> Bools:
    """By id of a label's value: whether the requirement holds. It is checked once per value, not once per
    node."""
    answer = np.zeros(len(column.values), dtype=np.bool_)
    operator = requirement.operator
    if operator in {GREATER, LESS}:
        answer[1:] = [requirement.matches({column.key: value}) for value in column.values[1:]]
        return answer
    if operator in {EXISTS, OPERATOR_MISSING}:
        answer[1:] = operator == EXISTS
        answer[MISSING] = operator == OPERATOR_MISSING
        return answer
    for value in requirement.values:
        value_id = column.id_of(value)
        if value_id is not None:
            answer[value_id] = True
    if operator == IN:
        return answer
    return ~answer


class Reasons:
    """The reasons of one pass, by code. The first is 'fits', the last 'no node in this row'."""

    GONE = CODES_MAX

    def __init__(self) -> None:
        self.listed: list[Reason] = [Reason("", ())]
        self._codes: dict[Reason, int] = {}

    def code(self, reason: Reason, general: Callable[[], Reason] | None = None) -> int:
        """The reason's code. A pass that is nearly out of codes uses the rule's general reason instead."""
        code = self._codes.get(reason)
        if code is not None:
            return code
        if len(self.listed) >= CODES_MAX - 32 and general is not None:
            return self.code(general())
        if len(self.listed) >= CODES_MAX:
            return CODES_MAX - 1
        self._codes[reason] = len(self.listed)
        self.listed.append(reason)
        return self._codes[reason]
