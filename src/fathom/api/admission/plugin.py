"""The base class of admission plugins. Users' plugins derive from `Plugin` and override what they need."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.admission.attempt import CREATE, UPDATE, Charge, WriteAttempt
from fathom.kube.definitions.kind import Kind
from fathom.model.declared import Reads, Writes
from fathom.model.objects import Obj
from fathom.model.view import View


class Plugin:
    """Class attributes say which writes concern the plugin, so that the chain of a kind is assembled once."""

    name: str = ""  # In audit entries and refusals.
    resources: frozenset[str] | None = None  # 'pods', 'deployments.apps'; None means all.
    operations: frozenset[str] = frozenset({CREATE, UPDATE})
    subresources: frozenset[str] | None = frozenset({""})  # '' is the object itself; None means all.
    # True: the plugin never modifies its input, like the built-in ones. Untrusted plugins get copies.
    trusted: bool = False
    # For `fathom coupling`: what `mutate` and `charge` look at, and what they change beyond the request.
    reads: tuple[Reads, ...] = ()
    writes: tuple[Writes, ...] = ()
    takes: tuple[str, ...] = ()

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        if operation not in self.operations:
            return False
        if self.subresources is not None and subresource not in self.subresources:
            return False
        return self.resources is None or kind.resource in self.resources

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        """The object as it should be: the same one, or a changed copy. May also refuse."""
        assert attempt.obj is not None
        return attempt.obj

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        """Raise an ApiError to refuse (`attempt.refused` words a 403). All mutations are done by now."""

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        """Preconditions and writes for the same commit. May also refuse."""
        return ()

    def release(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        """The same at an object's final removal; `attempt.old` is its last state. Cannot refuse."""
        return ()


def overrides(plugin: Plugin, method: str) -> bool:
    """Whether a plugin implements a phase."""
    return getattr(type(plugin), method) is not getattr(Plugin, method)
