"""fathom's own kinds as CustomResourceDefinitions, installed in a Kubernetes that fathom is attached to.

`BindingBatch` and `NodeConnection` are not among them: they are computed, never stored, and another server
cannot compute them.
"""

from __future__ import annotations

from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.own import OWN_KINDS
from fathom.model.column import Column
from fathom.model.objects import Obj


def own_definitions() -> list[Obj]:
    return [definition_of(kind) for kind in OWN_KINDS if "list" in kind.verbs and not kind.virtual]


def definition_of(kind: Kind) -> Obj:
    selectable = [{"jsonPath": f".{path}"} for path in kind.selectable]
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": kind.schema},
        "additionalPrinterColumns": [_column(column) for column in kind.columns if _path(column)],
        **({"subresources": {"status": {}}} if "status" in kind.subresources else {}),
        **({"selectableFields": selectable} if selectable else {}),
    }
    names = {
        "kind": kind.kind,
        "listKind": kind.list_kind,
        "plural": kind.plural,
        "singular": kind.singular,
        "shortNames": list(kind.short_names),
        "categories": list(kind.categories),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


def _column(column: Column) -> Obj:
    optional = {"description": column.description, "priority": column.priority}
    head = {"name": column.name, "type": column.type, "jsonPath": _path(column)}
    return {**head, **{name: value for name, value in optional.items() if value}}


def _path(column: Column) -> str:
    return column.json_path if column.path.startswith("=") else column.path
