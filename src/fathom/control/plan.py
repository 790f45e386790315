"""A plan: what to do about one object, as data. Pure functions make plans, `commit` carries them out.

Every action has an identity that follows from the intent: a name that is f(owner, slot), or the UID and
revision of the object it changes. So doing it twice is doing it once, and a read shows whether it was done.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from fathom.cache.needs import Need, OwnWrites
from fathom.control.ownership import adopted, controller_of, orphaned, with_finalizer, without_finalizer
from fathom.model.decision import Considered
from fathom.model.invariant import InvariantBroken
from fathom.model.objects import Key, Obj, key_of, metadata, uid_of
from fathom.model.resource import Resource

# All writes made for the plan's key must be visible in the cache.
OWN_WRITES = OwnWrites("")


class Target(msgspec.Struct, frozen=True):
    """One object, as it was when the decision was made."""

    kind: str
    key: Key
    uid: str
    revision: str  # As the server gave it. '' is any.
    resource: Resource | None = None  # API resource, for a kind the controller does not declare.


def target(kind: str, obj: Obj, resource: Resource | None = None) -> Target:
    return Target(kind, key_of(obj), uid_of(obj), str(metadata(obj).get("resourceVersion") or ""), resource)


class Create(msgspec.Struct, frozen=True):
    """The name must follow from the intent: `generateName` would create another object with each try."""

    verb: ClassVar[str] = "create"
    kind: str
    obj: Obj

    def __post_init__(self) -> None:
        if not metadata(self.obj).get("name"):
            raise InvariantBroken(f"cannot create a {self.kind} without a name: {self.obj}")

    @property
    def line(self) -> str:
        return _line(self.verb, self.kind, key_of(self.obj))


class Patch(msgspec.Struct, frozen=True):
    """A merge patch that applies only to the revision that was read."""

    verb: ClassVar[str] = "patch"
    target: Target
    patch: Obj
    subresource: str = ""
    destructive: bool = False  # Scales up, advances a rollout: other components will act on it.

    @property
    def line(self) -> str:
        return _line(self.verb, self.target.kind, self.target.key, self.subresource)


class Delete(msgspec.Struct, frozen=True):
    verb: ClassVar[str] = "delete"
    target: Target
    policy: str = "Background"
    grace_s: int | None = None  # 0: at once, even if it still runs. None: the kind's default.
    as_read: bool = False  # Only at the revision that was read: it was chosen for its state then.

    @property
    def line(self) -> str:
        return _line(self.verb, self.target.kind, self.target.key)


class Evict(msgspec.Struct, frozen=True):
    """Delete a pod through its eviction subresource: only if its disruption budget allows that now."""

    verb: ClassVar[str] = "evict"
    target: Target
    override: str = ""  # The override that asks for it, NAMESPACE/NAME@UID: the server writes it on the pod.
    as_read: bool = False  # Only at the revision that was read: it was chosen for its state then.

    @property
    def line(self) -> str:
        return _line(self.verb, self.target.kind, self.target.key)


class WriteStatus(msgspec.Struct, frozen=True):
    """An observed status, merged into the present one; a value of None removes a field."""

    verb: ClassVar[str] = "status"
    target: Target
    status: Obj

    @property
    def line(self) -> str:
        return _line(self.verb, self.target.kind, self.target.key)


Action = Create | Patch | Delete | Evict | WriteStatus


class Plan(msgspec.Struct, frozen=True):
    """Carried out in field order; a failure keeps the following groups from being sent, but not the status:
    that reports what was observed, whatever the outcome of the rest.

    `needs`: how fresh the view must be. A destructive plan states them; until they are met, everything except
    the status waits."""

    creates: tuple[Create, ...] = ()
    patches: tuple[Patch, ...] = ()
    deletes: tuple[Delete | Evict, ...] = ()
    statuses: tuple[WriteStatus, ...] = ()
    needs: tuple[Need, ...] = ()
    why: str = ""  # For people: what was decided, and from which facts.
    because: str = ""  # The same in few words, for an Event.
    considered: tuple[Considered, ...] = ()  # Overrides, policies, quotas, … that the plan follows from.
    # It follows from what overrides pause: the server refuses its actions once such an override has come that
    # the view does not show. A request may arrive after its sender has given up on it and acknowledged that.
    heeds_pauses: bool = False

    def __post_init__(self) -> None:
        if self.destroys and not self.needs:
            lines = [action.line for action in self.actions]
            raise InvariantBroken(f"a destructive plan must state how fresh its view has to be: {lines}")

    @property
    def destroys(self) -> bool:
        return bool(self.deletes) or any(patch.destructive for patch in self.patches)

    @property
    def actions(self) -> tuple[Action, ...]:
        return (*self.creates, *self.patches, *self.deletes)

    @property
    def verdict(self) -> str:
        """The plan in one word."""
        words = [
            word
            for word, some in (
                ("create", self.creates),
                ("patch", self.patches),
                ("delete", self.deletes),
                ("status", self.statuses),
            )
            if some
        ]
        return "+".join(words) or "nothing"


NOTHING = Plan()


# Common actions.


def write_status(kind: str, obj: Obj, status: Obj) -> tuple[WriteStatus, ...]:
    """Nothing if the status already has these values."""
    return () if contains(obj.get("status") or {}, status) else (WriteStatus(target(kind, obj), status),)


def adopt(kind: str, child: Obj, owner: Obj) -> Patch:
    return Patch(target(kind, child), {"metadata": {"ownerReferences": adopted(child, owner)}})


def release(kind: str, child: Obj, owner: Obj) -> Patch:
    return Patch(target(kind, child), {"metadata": {"ownerReferences": orphaned(child, owner)}})


def add_finalizer(kind: str, obj: Obj, name: str) -> tuple[Patch, ...]:
    """Nothing if the finalizer is there, or if it is too late: a terminating object accepts none."""
    finalizers = with_finalizer(obj, name)
    return () if finalizers is None else (Patch(target(kind, obj), {"metadata": {"finalizers": finalizers}}),)


def remove_finalizer(kind: str, obj: Obj, name: str) -> tuple[Patch, ...]:
    finalizers = without_finalizer(obj, name)
    return () if finalizers is None else (Patch(target(kind, obj), {"metadata": {"finalizers": finalizers}}),)


# Whether an action is done, judged from the object as it is read.


def is_done(action: Action, current: Obj | None) -> bool:
    match action:
        case Create(obj=obj):
            return current is not None and _is_that_child(obj, current)
        case Patch(target=at, patch=patch):
            return current is not None and uid_of(current) == at.uid and contains(current, patch)
        case Delete(target=at, grace_s=grace_s):
            if current is None or uid_of(current) != at.uid:
                return True
            return grace_s != 0 and bool(metadata(current).get("deletionTimestamp"))
        case Evict(target=at):
            gone = current is None or uid_of(current) != at.uid
            return gone or bool(metadata(current or {}).get("deletionTimestamp"))
        case WriteStatus(target=at, status=status):
            return current is not None and uid_of(current) == at.uid and contains(current, {"status": status})


INTENT = "fathom.dev/intent"


def _is_that_child(wanted: Obj, current: Obj) -> bool:
    """Ours, for the same purpose, and not terminating. Without an owner or an intent the name must do."""
    if metadata(current).get("deletionTimestamp"):
        return False
    wanted_owner, owner = controller_of(wanted), controller_of(current)
    if (wanted_owner or {}).get("uid") != (owner or {}).get("uid"):
        return False
    return _intent(wanted) == _intent(current)


def _intent(obj: Obj) -> object:
    return (metadata(obj).get("annotations") or {}).get(INTENT)


def contains(current: object, patch: object) -> bool:
    """Whether applying the merge patch would change nothing."""
    if not isinstance(patch, dict):
        return current == patch
    if not isinstance(current, dict):
        return False
    return all(
        current.get(name) is None if value is None else name in current and contains(current[name], value)
        for name, value in patch.items()
    )


def _line(verb: str, kind: str, key: Key, subresource: str = "") -> str:
    path = "/".join(part for part in (key.namespace, key.name) if part)
    return f"{verb} {kind} {path}{'/' + subresource if subresource else ''}"
