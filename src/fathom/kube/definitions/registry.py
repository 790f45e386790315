"""The registry of served kinds. Mutable, because CRDs are added and removed while the server runs."""

from __future__ import annotations

from functools import lru_cache

from fathom.kube.definitions import catalogue, definitions
from fathom.kube.definitions.catalogue import Catalogue, Subresource
from fathom.kube.definitions.decode import Decoder, Readers
from fathom.kube.definitions.defaults import Defaults
from fathom.kube.definitions.definitions import Definitions
from fathom.kube.definitions.kind import Kind


class Registry:
    """Kinds by address, by name and by group-version-kind."""

    def __init__(
        self,
        definitions: Definitions,
        *,
        subresources: dict[str, Subresource] | None = None,
        defaults: Defaults | None = None,
        readers: Readers | None = None,
    ) -> None:
        self.definitions = definitions
        self._readers = readers
        self.subresources = subresources or {}
        self.revision = 0  # Grows with every change: documents made from the registry are then outdated.
        self._defaults = defaults or Defaults({}, {})
        self._by_path: dict[tuple[str, str, str], Kind] = {}  # In order of registration.
        self._by_resource: dict[str, Kind] = {}
        self._by_gvk: dict[tuple[str, str, str], Kind] = {}
        self._custom: dict[str, tuple[Kind, ...]] = {}  # By resource: one for each served version.

    @classmethod
    def builtin(cls) -> Registry:
        """All built-in kinds of Kubernetes."""
        builtin_definitions, builtin_catalogue, defaults, readers = _built_in()
        registry = cls(
            builtin_definitions,
            subresources=dict(builtin_catalogue.subresources),
            defaults=defaults,
            readers=readers,
        )
        for kind in builtin_catalogue.kinds:
            registry.add(kind)
        for body in builtin_catalogue.bodies:
            registry.add_body(body)
        return registry

    def decoder(self) -> Decoder:
        """A decoder for the kinds of this registry, with their defaults."""
        return Decoder(self.definitions, self._defaults, readers=self._readers)

    def add(self, kind: Kind) -> None:
        """Add a permanent kind: a built-in one, or fathom's own."""
        self._by_path[kind.group, kind.version, kind.plural] = kind
        self._by_resource.setdefault(kind.resource, kind)  # The preferred version comes first.
        self._by_gvk[kind.group, kind.version, kind.kind] = kind
        self.revision += 1

    def add_body(self, kind: Kind) -> None:
        """Add a kind that only subresources and options use: it has no address."""
        self._by_gvk[kind.group, kind.version, kind.kind] = kind

    def add_custom(self, kinds: tuple[Kind, ...]) -> None:
        """Add or change a CRD's kinds, one for each version. Unchanged ones change nothing."""
        resource = kinds[0].resource
        current = self._custom.get(resource, ())
        if current == kinds:
            return
        if not current and resource in self._by_resource:
            raise ValueError(f"{resource} is built in")
        for kind in current:
            self._forget(kind)
        for kind in kinds:
            self.add(kind)
        self._custom[resource] = kinds

    def is_custom(self, resource: str) -> bool:
        """Whether a CRD defines it."""
        return resource in self._custom

    def is_built_in_group(self, group: str) -> bool:
        return any(kind.group == group and kind.resource not in self._custom for kind in self.kinds())

    def remove_custom(self, resource: str) -> None:
        """Remove a CRD's kind; an unknown or a built-in resource is ignored."""
        kinds = self._custom.pop(resource, ())
        for kind in kinds:
            self._forget(kind)
        self.revision += bool(kinds)

    def _forget(self, kind: Kind) -> None:
        del self._by_path[kind.group, kind.version, kind.plural]
        self._by_resource.pop(kind.resource, None)
        named = (kind.group, kind.version, kind.kind)
        if self._by_gvk.get(named) is kind:  # Another definition may have taken the name.
            del self._by_gvk[named]

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_path.get((group, version, plural))

    def by_resource(self, resource: str) -> Kind | None:
        """'pods', 'deployments.apps'."""
        return self._by_resource.get(resource)

    def by_gvk(self, group: str, version: str, kind: str) -> Kind | None:
        """Also of bodies: ('autoscaling', 'v1', 'Scale')."""
        return self._by_gvk.get((group, version, kind))

    def kinds(self) -> list[Kind]:
        """All kinds that have an address, in the order of discovery."""
        return list(self._by_path.values())


@lru_cache(maxsize=1)
def _built_in() -> tuple[Definitions, Catalogue, Defaults, Readers]:
    """Read once a process: none of it ever changes, and a simulated world often starts servers."""
    builtin_definitions = definitions.load()
    builtin_catalogue = catalogue.load(builtin_definitions)
    return (
        builtin_definitions,
        builtin_catalogue,
        Defaults(builtin_catalogue.defaults, builtin_catalogue.default_groups),
        Readers(builtin_definitions),
    )
