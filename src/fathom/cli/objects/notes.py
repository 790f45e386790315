"""`fathom annotate` and `fathom label`: set or remove annotations and labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from fathom.cli.objects.changes import DryRun, ObjectChanges, Output, split_words
from fathom.cli.objects.resources import NamedObject
from fathom.cli.places import Kubeconfig, Namespace
from fathom.cli.problem import ANSWER_IS_NO, Problem

Obj = dict[str, Any]

What = Annotated[
    str,
    Parameter(
        allow_leading_hyphen=False,
        help="Objects, then KEY=VALUE to set and KEY- to remove: node/node-1 a=1 b-",
    ),
]
Overwrite = Annotated[bool, Parameter(negative=(), help="Also change a value that is there already.")]


class _Field(msgspec.Struct, frozen=True):
    """The field of the metadata, and how a change of it is reported."""

    name: str  # 'labels'
    noun: str  # 'label'
    changed: str
    removed: str
    unchanged: str


LABELS = _Field("labels", "label", "labeled", "unlabeled", "not labeled")
ANNOTATIONS = _Field("annotations", "annotation", "annotated", "annotated", "annotated")


def annotate(
    *what: What,
    overwrite: Overwrite = False,
    dry_run: DryRun = "none",
    output: Output = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Set or remove annotations of objects. A value that is there already needs --overwrite.

    Prints a line for each object: annotated.

    fathom annotate deployment/web team=payments
    fathom annotate node/node-1 fathom.dev/trust-lost-
    """
    changes = ObjectChanges(kubeconfig, namespace=namespace, dry_run=dry_run, output=output)
    return _set(ANNOTATIONS, what, changes, overwrite=overwrite)


def label(
    *what: What,
    overwrite: Overwrite = False,
    dry_run: DryRun = "none",
    output: Output = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Set or remove labels of objects. A value that is there already needs --overwrite.

    Prints a line for each object: labeled, unlabeled or not labeled.

    fathom label namespace/shop fathom.dev/tenant=retail
    fathom label pod/web-1 app-
    """
    changes = ObjectChanges(kubeconfig, namespace=namespace, dry_run=dry_run, output=output)
    return _set(LABELS, what, changes, overwrite=overwrite)


def wanted_values(words: Sequence[str], noun: str) -> dict[str, str | None]:
    """Key -> its value, or None where it is to be removed. Raises Problem."""
    wanted: dict[str, str | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key if equals else key.removesuffix("-")
        if not key or key in wanted:
            raise Problem(f"name each {noun} once, as KEY=VALUE or KEY-, not {word!r}")
        wanted[key] = value if equals else None
    if not wanted:
        raise Problem(f"say which {noun} to set or remove: KEY=VALUE or KEY-")
    return wanted


def _set(field: _Field, words: Sequence[str], changes: ObjectChanges, *, overwrite: bool) -> int:
    names, values = split_words(words)
    wanted = wanted_values(values, field.noun)
    for target in changes.named(names):
        there = (changes.read(target).get("metadata") or {}).get(field.name) or {}
        _check_overwritten(field, target, there, wanted, overwrite=overwrite)
        changed = changes.patch(target, {"metadata": {field.name: wanted}})
        changes.report(target, changed, _word(field, there, wanted))
    return 0


def _check_overwritten(
    field: _Field, target: NamedObject, there: Obj, wanted: dict[str, str | None], *, overwrite: bool
) -> None:
    """Raises Problem."""
    other = [key for key, value in wanted.items() if value is not None and there.get(key, value) != value]
    if other and not overwrite:
        raise Problem(
            f"{target.label} has the {field.noun} {other[0]} with the value {there[other[0]]!r}: give"
            " --overwrite to change it",
            exit_code=ANSWER_IS_NO,
        )


def _word(field: _Field, there: Obj, wanted: dict[str, str | None]) -> str:
    if all(there.get(key) == value for key, value in wanted.items()):
        return field.unchanged
    return field.removed if all(value is None for value in wanted.values()) else field.changed
