"""Changes of one line of code, as a person could make them by mistake.

if, while, a returned test      negated; `<` and `<=` confused, `==` and `!=`
a number                        one more
min, max                        the other one
a statement                     left out
a returned value                None instead
`and`, `or`                     the other one
`+`, `-`                        the other one
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

Change = Callable[[], object]

STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
OTHER_COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OTHER_OPERATOR: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
OTHER_NAME = {"min": "max", "max": "min", "any": "all", "all": "any"}


def changes_of(tree: ast.Module, line: int) -> list[Change]:
    """Each makes one change of this line, in the given tree."""
    return [change for parent in ast.walk(tree) for change in _changes_below(parent, line)]


def changed_tree(tree: ast.Module, line: int, number: int) -> ast.Module:
    tree = copy.deepcopy(tree)
    changes_of(tree, line)[number]()
    return ast.fix_missing_locations(tree)


def _changes_below(parent: ast.AST, line: int) -> Iterator[Change]:
    for _, value in ast.iter_fields(parent):
        children = value if isinstance(value, list) else [value]
        for place, child in enumerate(children):
            if isinstance(child, ast.AST) and getattr(child, "lineno", 0) == line:
                yield from _changes(child)
            if isinstance(child, STATEMENTS) and child.lineno == line and not _is_text(child):
                yield partial(_put, value, place, ast.Pass())


def _put(items: list[Any], place: int, item: Any) -> None:
    items[place] = item


def _is_text(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _changes(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield partial(setattr, node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Return) and node.value is not None:
        yield partial(setattr, node, "value", ast.Constant(None))
        if isinstance(node.value, ast.Compare | ast.BoolOp):
            yield partial(setattr, node, "value", ast.UnaryOp(ast.Not(), node.value))
    elif isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            other = OTHER_COMPARISON[type(operator)]()
            yield partial(_put, node.ops, place, other)
    elif isinstance(node, ast.BoolOp):
        other_test = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield partial(setattr, node, "op", other_test)
    elif isinstance(node, ast.BinOp) and type(node.op) in OTHER_OPERATOR:
        yield partial(setattr, node, "op", OTHER_OPERATOR[type(node.op)]())
    elif isinstance(node, ast.Name) and node.id in OTHER_NAME:
        yield partial(setattr, node, "id", OTHER_NAME[node.id])
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield partial(setattr, node, "value", node.value + 1)
