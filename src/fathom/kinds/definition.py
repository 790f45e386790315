"""The definition of a kind, as its file declares it. The API, discovery and OpenAPI, the tables of `kubectl
get`, the roles `view` and `admin` and the definitions for other clusters are derived from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import msgspec

from fathom.kinds.schema import Schema, schema_of
from fathom.kinds.shape import GROUP, Shape
from fathom.model.column import Column
from fathom.model.errors import Cause
from fathom.model.objects import Obj


class Stamp(msgspec.Struct, frozen=True):
    """The user who writes an object, and when: the server, not the writer, puts these into a status."""

    user: str
    now: str  # RFC 3339
    impersonator: str = ""  # The real user, if `user` is impersonated.


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What a schema cannot express, as pure functions. Each may be absent.

    The status functions run before the schema check. None may fail on anything that a client sends: they skip
    values of a wrong type."""

    validate_create: Callable[[Obj], list[Cause]] | None = None
    validate_update: Callable[[Obj, Obj], list[Cause]] | None = None  # (new, old); absent: as at creation.
    warnings: Callable[[Obj], list[str]] | None = None

    # The status to store, given the user of the request. None: unchanged. Clients write status only through
    # the subresources, whose functions get the object as sent: (new, old, stamp).
    status_at_create: Callable[[Obj, Stamp], Obj] | None = None
    status_at_update: Callable[[Obj, Obj, Stamp], Obj | None] | None = None
    status_at_status_update: Callable[[Obj, Obj, Stamp], Obj] | None = None
    status_at_approval: Callable[[Obj, Obj, Stamp], Obj] | None = None


# The instance dictionary holds the cached properties. The schema is made on demand: a scheduler needs none.
class KindDefinition(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    shape: type[Shape]  # Its name is the kind's. A field `status` gives the kind that subresource.
    about: str  # What its objects are, in a sentence or two: `kubectl explain KIND` begins with it.
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()  # Between NAME and AGE.
    selectable: tuple[str, ...] = ()  # Field selectors beyond metadata.name and metadata.namespace.
    approval: bool = False  # Whether it has the subresource `approval`, for an approver's decision.
    verbs: tuple[str, ...] = ()  # Of a kind that is answered and never stored. Empty: stored, with all verbs.
    asks: bool = False  # Never stored, and its requests only ask: none of them is in the audit log.
    rules: Rules | None = None
    view_role_reads: bool = False  # Whether the ClusterRole `view` (so `edit` and `admin` too) reads it.
    admin_role_writes: bool = False  # Whether the ClusterRole `admin` writes it.
    admin_role_writes_status: bool = False  # And its status: a client of a person keeps its record there.

    @property
    def kind(self) -> str:
        return self.shape.__name__

    @property
    def stored(self) -> bool:
        return not self.verbs

    @property
    def subresources(self) -> tuple[str, ...]:
        status = self.stored and "status" in self.shape.__struct_fields__
        return (*(("status",) if status else ()), *(("approval",) if self.approval else ()))

    @cached_property
    def resource(self) -> str:
        """'reservations.fathom.dev': the name used in views, messages and storage keys."""
        return f"{self.plural}.{GROUP}"

    @cached_property
    def schema(self) -> Schema:
        return {"description": self.about, **schema_of(self.shape)}
