"""One kind of object, as data. Its behaviour is in its rules (`kube/rules`), never in a subclass."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from fathom.kube.definitions.structural import Structural
from fathom.model.column import Column

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class ScalePaths(msgspec.Struct, frozen=True):
    """The fields that the scale subresource uses, as dotted paths: 'spec.replicas'."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""  # Of a string (custom resources) or a LabelSelector (ReplicaSet) in the object.


# The instance dictionary holds the cached properties: every request uses them.
class Kind(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    group: str  # '' is the core group.
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()  # status, scale, binding, log, exec, …
    scale: ScalePaths | None = None
    generation: bool = False  # metadata.generation grows when the spec changes.
    columns: tuple[Column, ...] = ()  # After NAME, unless one is called Name; empty means NAME and AGE.
    selectable: tuple[str, ...] = ()  # Field selectors beyond metadata.name and metadata.namespace.
    definition: str = ""  # The name of its definition in the built-in schemas.
    schema: dict[str, Any] | None = None  # The structural schema of a custom resource, or of our own kinds.
    stored_as: str = ""  # The resource whose storage it shares (events.k8s.io); '' means its own.
    stored_version: str = ""  # The API version of stored objects, where a definition has several.
    virtual: bool = False  # Answered, never stored: SelfSubjectAccessReview.
    deprecated: str = ""  # A warning sent with every answer about the kind.

    @cached_property
    def structural(self) -> Structural:
        """The compiled schema. It is kept here so that it goes with the kind: definitions come and go."""
        return Structural(self.schema or {})

    @cached_property
    def is_converted(self) -> bool:
        """Whether stored objects are of another form than those that the API shows."""
        return bool(self.stored_as or self.stored_version)

    @cached_property
    def resource(self) -> str:
        """'pods', 'deployments.apps': the name used in RBAC messages, views and storage keys."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def prefix(self) -> str:
        """The store prefix of all objects of the kind."""
        return f"/registry/{self.stored_as or self.resource}/"

    def store_key(self, namespace: str, name: str) -> str:
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else f"{self.prefix}{name}"
