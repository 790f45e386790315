"""Children by selector: which owner controls a child, which would adopt it, what to adopt and release."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.cache.indexes import STANDARD
from fathom.cache.snapshot import Snapshot
from fathom.control.kit import Kit
from fathom.control.ownership import OwnerClaims, claims, controller_of
from fathom.control.watches import Concerns, View, WatchedKind
from fathom.controllers.pod_states import ORPHANS, by_orphan
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, metadata, uid_of
from fathom.model.selectors import LabelSelector

FOR_CHILDREN = {**STANDARD, ORPHANS: by_orphan}


def selector_of(owner: Obj) -> LabelSelector:
    """Stored selectors were validated; an older, invalid one selects nothing."""
    try:
        return LabelSelector.from_object((owner.get("spec") or {}).get("selector"))
    except ValueError:
        return LabelSelector.from_object(None)


def owner_key(child: Obj, kind: WatchedKind) -> Key | None:
    """The owner of this kind that controls the child."""
    reference = controller_of(child)
    if reference is None or reference.get("kind") != kind.name:
        return None
    if str(reference.get("apiVersion")).partition("/")[0] != kind.api_version.partition("/")[0]:
        return None
    return Key(str(metadata(child).get("namespace")), str(reference.get("name")))


def concerned(kind: WatchedKind) -> Concerns:
    """A controlled child concerns its controller; an orphan every owner whose selector matches it."""

    def keys(child: Obj, view: View) -> Iterable[Key]:
        if controller_of(child) is not None:
            key = owner_key(child, kind)
            return () if key is None else (key,)
        labels = labels_of(child)
        if is_deleting(child) or not labels:
            return ()
        owners = view().list(kind.name, str(metadata(child).get("namespace")))
        return tuple(key_of(owner) for owner in owners if selector_of(owner).matches(labels))

    return keys


def claims_of(view: Snapshot, kind: str, owner: Obj) -> OwnerClaims:
    """`kind`: of the children."""
    namespace, uid, selector = key_of(owner).namespace, uid_of(owner), selector_of(owner)
    orphans = [
        child for child in view.by_index(kind, ORPHANS, namespace) if selector.matches(labels_of(child))
    ]
    return claims(owner, [*view.owned(kind, uid), *orphans], lambda child: selector.matches(labels_of(child)))


async def may_adopt(kit: Kit, kind: WatchedKind, children: str, key: Key) -> bool:
    """An owner that is gone must not adopt: the garbage collector would delete what it adopted. The owner's
    cache may be behind, so the server is asked, but only if there is something to adopt."""
    view = kit.snapshot()
    owner = view.get(kind.name, key)
    if owner is None or not claims_of(view, children, owner).adopt:
        return True
    current = await kit.api.get(kind.resource, *key)
    return current is not None and uid_of(current) == uid_of(owner) and not is_deleting(current)
