"""Options that these commands share, and the objects that a user names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from cyclopts import Parameter

from fathom.cli.objects.resources import Resource, Resources
from fathom.cli.problem import Problem

AllNamespaces = Annotated[
    bool, Parameter(name=("--all-namespaces", "-A"), negative=(), help="Objects of all namespaces.")
]
Selector = Annotated[
    str, Parameter(name=("--selector", "-l"), help="Only objects with these labels: app=web,tier!=db")
]
Files = Annotated[
    tuple[str, ...],
    Parameter(
        name=("--filename", "-f"),
        negative=(),
        allow_leading_hyphen=True,
        help="YAML or JSON: files, directories, - for standard input.",
    ),
]
Recursive = Annotated[
    bool, Parameter(name=("--recursive", "-R"), negative=(), help="Directories with all below them.")
]


class Named(msgspec.Struct, frozen=True):
    """Objects that a user named."""

    resource: Resource
    names: tuple[str, ...]  # None: all of the kind.


def named_objects(words: Sequence[str], resources: Resources) -> list[Named]:
    """`pods`, `pods a b`, `pods,services`, `pod/a service/b`. Raises Problem."""
    if not words:
        raise Problem("name a kind, or an object: pods, pod/web-1, deployments,services")
    if any("/" in word for word in words):
        return [_one(word, resources) for word in words]
    kinds, *names = words
    return [
        Named(resource, tuple(names))
        for kind in kinds.split(",")
        for resource in (resources.of_category(kind) or [resources.find(kind)])
    ]


def one_object(words: Sequence[str], resources: Resources, usage: str) -> tuple[Resource, str]:
    """`deployment/web` or `deployment web`. Raises Problem."""
    named = named_objects(words, resources)
    if len(named) != 1 or len(named[0].names) != 1:
        raise Problem(f"name one object: {usage}")
    return named[0].resource, named[0].names[0]


def _one(word: str, resources: Resources) -> Named:
    kind, slash, name = word.partition("/")
    if not (slash and kind and name) or "/" in name:
        raise Problem(f"an object reads KIND/NAME, for example pod/web-1, not {word!r}")
    return Named(resources.find(kind), (name,))
