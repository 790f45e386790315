"""Unconditional defaults, compiled from paths into closures.

A default that depends on other fields belongs to the kind's rules. Applying is idempotent, creates no
missing parents, and costs one dictionary look-up per field that may have a default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from fathom.kube.definitions.catalogue import Paths
from fathom.model.objects import Obj

Apply = Callable[[Any], None]  # Fills in one object, or each object of one list.

_INCLUDE: Final = "@"
_ZERO_IS_UNSET: Final = "?"
_EACH: Final = "[]"


class Defaults:
    """By resource, each compiled when it is first needed."""

    def __init__(self, by_resource: Mapping[str, Paths], groups: Mapping[str, Paths]) -> None:
        self._by_resource = by_resource
        self._groups = groups
        self._compiled: dict[str, Apply] = {}

    def apply(self, resource: str, obj: Obj) -> None:
        """Fill in the defaults of a kind's object, in place."""
        compiled = self._compiled.get(resource)
        if compiled is None:
            tree = Tree()
            tree.add_all(self._by_resource.get(resource, {}), self._groups)
            compiled = self._compiled[resource] = tree.compile()
        compiled(obj)


class Tree:
    """The defaults of one level and of the levels below it."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[Any, bool]] = {}  # Field -> default, whether zero counts as unset.
        self.inner: dict[str, Tree] = {}  # Field, with '[]' at the end for each item of a list.

    def add_all(self, paths: Paths, groups: Mapping[str, Paths]) -> None:
        for path, value in paths.items():
            *parents, last = path.split(".")
            at = self
            for step in parents:
                at = at.inner.setdefault(step, Tree())
            if isinstance(value, str) and value.startswith(_INCLUDE):
                at.inner.setdefault(last, Tree()).add_all(groups[value.removeprefix(_INCLUDE)], groups)
            else:
                at.values[last.removesuffix(_ZERO_IS_UNSET)] = (value, last.endswith(_ZERO_IS_UNSET))

    def compile(self) -> Apply:
        fill, descend = self._fill(), self._descend()
        if fill is None or descend is None:
            return fill or descend or _nothing

        def apply(obj: Any) -> None:
            fill(obj)
            descend(obj)

        return apply

    def _fill(self) -> Apply | None:
        """Set this level's fields."""
        plain, unset, containers = self._sorted_values()
        if not self.values:
            return None

        def fill(obj: Any) -> None:
            for field, value in plain:
                if field not in obj:
                    obj[field] = value
            for field, value in unset:
                if not obj.get(field):
                    obj[field] = value
            for field, value in containers:
                if field not in obj:
                    obj[field] = deepcopy(value) if value else type(value)()

        if plain or containers or len(unset) > 1:
            return fill
        only, default = unset[0]

        def fill_one(obj: Any) -> None:
            if not obj.get(only):
                obj[only] = default

        return fill_one

    def _descend(self) -> Apply | None:
        """Go on to the levels below."""
        inner = {
            field.removesuffix(_EACH): _apply_at(field, tree.compile()) for field, tree in self.inner.items()
        }
        if not inner:
            return None

        def descend(obj: Any) -> None:
            # Objects have fewer fields than may have defaults: iterate over the object's.
            for field, value in obj.items():
                if field in inner:
                    inner[field](value)

        if len(inner) > 1:
            return descend
        ((only, below),) = inner.items()

        def descend_one(obj: Any) -> None:
            if only in obj:
                below(obj[only])

        return descend_one

    def _sorted_values(self) -> tuple[list[tuple[str, Any]], ...]:
        """Scalar defaults for an absent field; scalar defaults also for an empty or zero one; and containers,
        of which each object needs its own copy."""
        plain, unset, containers = [], [], []
        for field, (value, zero_is_unset) in self.values.items():
            if isinstance(value, dict | list):
                containers.append((field, value))
            elif zero_is_unset or isinstance(value, str):
                unset.append((field, value))
            else:
                plain.append((field, value))
        return plain, unset, containers


def _nothing(obj: Any) -> None:
    """For kinds without defaults."""


def _apply_at(field: str, apply: Apply) -> Apply:
    if not field.endswith(_EACH):
        return apply

    def each(items: Any) -> None:
        for item in items:
            apply(item)

    return each
