"""The rules that every kind has; those of a kind override what differs."""

from __future__ import annotations

import msgspec

from fathom.kube.rules.pod.warnings import pod_warnings
from fathom.model.errors import Cause
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.user import User
from fathom.model.view import View


class WriteMoment(msgspec.Struct, frozen=True):
    """The time and the user of one write."""

    now: str  # RFC 3339
    view: View
    user: User = User("")  # The user who writes.


_NOT_DESIRED = frozenset({"metadata", "status", "kind", "apiVersion"})


class KindRules:
    """Fields the caller may not set are dropped by the generic verbs before the rules see the object:
    `status` outside its subresource, and server-owned metadata (uid, creationTimestamp, generation...)."""

    keeps_status_at_create = False  # A node registers itself together with its status.
    template: tuple[str, ...] = ()  # The path of a workload's pod template.
    repeats = False  # Many objects come from one template, and the defaults depend on the spec alone.
    warns = False  # Whether `warnings` can return any.

    def __init_subclass__(cls) -> None:
        cls.warns = bool(cls.template) or cls.warnings is not KindRules.warnings

    def default(self, obj: Obj) -> None:
        """Fill in defaults. Runs on every write, after decoding; must be idempotent."""

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        """Before admission, at creation."""

    def settle_create(self, obj: Obj, draft: Obj) -> Obj:
        """Complete the object after admission has mutated `draft`, the result of `prepare_create`. Returns a
        new object if it differs: both arguments may be used again."""
        return obj

    def prepare_update(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        """Before admission, at an update of the main resource."""

    def prepare_status(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        """At an update of the status subresource; spec and metadata are already the old ones."""

    def prepare_approval(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        """The same at an update of the approval subresource."""
        self.prepare_status(obj, old, moment)

    def validate_create(self, obj: Obj) -> list[Cause]:
        """After admission. Metadata is validated elsewhere."""
        return []

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        return self.validate_create(obj)

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        return []

    def warnings(self, obj: Obj) -> list[str]:
        """Shown to the writer as `Warning:` headers."""
        template = lookup(obj, *self.template) if self.template else None
        return pod_warnings(template, f"{'.'.join(self.template)}.") if template else []

    def grace_seconds(self, obj: Obj, requested: int | None) -> int:
        """How long deletion waits for the agent's confirmation; 0 removes the object at once."""
        return 0

    def held(self, obj: Obj) -> bool:
        """Whether something still has to happen before a deleted object may be removed."""
        return bool(metadata(obj).get("finalizers"))

    def prepare_delete(self, obj: Obj, moment: WriteMoment) -> None:
        """When deletion starts but cannot finish yet; the deletion timestamp is already set."""

    def generation_changed(self, obj: Obj, old: Obj) -> bool:
        """Whether the desired state differs: everything but metadata and status."""
        for field, value in obj.items():
            if field not in _NOT_DESIRED and value != old.get(field):
                return True
        for field, value in old.items():
            if value is not None and field not in obj and field not in _NOT_DESIRED:
                return True
        return False

    def field(self, obj: Obj, path: str) -> str | None:
        """The value of a field selector that no plain path gives; None means: use the path."""
        return None
