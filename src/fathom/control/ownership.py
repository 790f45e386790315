"""Ownership: owner references, slots and the names derived from them, adoption, finalizers. Pure.

A child's name is f(owner, slot). A controller that repeats itself, after a crash or a lost answer, asks for
the same name again: the create collides, and nothing is created twice. The slot to fill is the lowest free
one; a terminating child occupies its slot until it is gone.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from fathom.model.objects import NAME_ALPHABET, Obj, is_deleting, metadata, uid_of, with_metadata

NAME_LENGTH_MAX = 63  # The limit of a label value, which a child's name often becomes (a pod's hostname).
# Five letters of Kubernetes' alphabet for generated names: no vowels, so no words.


# Owners.


def controller_ref(owner: Obj) -> Obj:
    """The owner reference by which a child names its controller."""
    meta = metadata(owner)
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(child: Obj) -> Obj | None:
    """The reference to the child's controller, if it has one."""
    references = metadata(child).get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def is_controlled_by(child: Obj, owner: Obj) -> bool:
    """Compares UIDs: an object of the same name that was created later is another owner."""
    reference = controller_of(child)
    return reference is not None and reference.get("uid") == uid_of(owner)


def owned(child: Obj, owner: Obj) -> Obj:
    """The child, with a reference to its future controller."""
    other_references = [
        reference
        for reference in metadata(child).get("ownerReferences") or ()
        if reference.get("uid") != uid_of(owner)
    ]
    return with_metadata(child, ownerReferences=[*other_references, controller_ref(owner)])


# Slots and names.


def child_name(owner: str, slot: int) -> str:
    """'web' and 3: 'web-3'. An owner's name that is too long is cut, and gets a checksum of the whole."""
    return _fitted(owner, f"-{slot}")


def named_after(owner: str, *parts: str) -> str:
    """The name of a child that is identified by words, not by a number: 'web', 'eu-west' -> 'web-eu-west'."""
    return _fitted("-".join((owner, *parts)), "")


def _fitted(text: str, end: str) -> str:
    if len(text) + len(end) <= NAME_LENGTH_MAX:
        return text + end
    tag = f"-{_letters(zlib.crc32(text.encode()))}"
    return text[: NAME_LENGTH_MAX - len(tag) - len(end)].rstrip("-.") + tag + end


def _letters(number: int) -> str:
    letters = ""
    for _ in range(5):
        number, digit = divmod(number, len(NAME_ALPHABET))
        letters += NAME_ALPHABET[digit]
    return letters


_SLOT = re.compile(r"-(0|[1-9]\d{0,8})")


def slot_of(child: Obj, owner: Obj) -> int | None:
    """None for a child without a slot: it was adopted, or another client named it."""
    name, above = str(metadata(child).get("name")), str(metadata(owner)["name"])
    match = _SLOT.fullmatch(name, name.rfind("-"))
    if match is None:
        return None
    slot = int(match.group(1))
    return slot if child_name(above, slot) == name else None


def taken_slots(children: Iterable[Obj], owner: Obj) -> list[int]:
    """The slots of all existing children, terminating ones included, in order."""
    slots = (slot_of(child, owner) for child in children)
    return sorted({slot for slot in slots if slot is not None})


def free_slots(taken: Iterable[int], count: int) -> list[int]:
    """The lowest `count` slots that are not taken."""
    full, free, slot = set(taken), list[int](), 0
    while len(free) < count:
        if slot not in full:
            free.append(slot)
        slot += 1
    return free


# Adopting and releasing.


class OwnerClaims(msgspec.Struct, frozen=True):
    """The children an owner has, and those it should adopt or release. In the order they were given."""

    mine: tuple[Obj, ...] = ()  # Controlled by the owner, and matching.
    adopt: tuple[Obj, ...] = ()  # Matching, without a controller.
    release: tuple[Obj, ...] = ()  # Controlled by the owner, and no longer matching.


def claims(owner: Obj, children: Sequence[Obj], matches: Callable[[Obj], bool]) -> OwnerClaims:
    """The rules of Kubernetes' own controllers: another owner's child is never touched, a terminating owner
    neither adopts nor releases, and a terminating child is not adopted."""
    mine, adopt, release = list[Obj](), list[Obj](), list[Obj]()
    is_terminating = is_deleting(owner)
    for child in children:
        reference = controller_of(child)
        if reference is not None:
            if reference.get("uid") == uid_of(owner):
                if matches(child):
                    mine.append(child)
                elif not is_terminating:
                    release.append(child)
        elif matches(child) and not is_terminating and not is_deleting(child):
            adopt.append(child)
    return OwnerClaims(tuple(mine), tuple(adopt), tuple(release))


# Desired lists. `plan` turns them into patches, each bound to the revision it was decided from.


def adopted(child: Obj, owner: Obj) -> list[Obj]:
    references: list[Obj] = metadata(owned(child, owner))["ownerReferences"]
    return references


def orphaned(child: Obj, owner: Obj) -> list[Obj]:
    references = metadata(child).get("ownerReferences") or ()
    return [reference for reference in references if reference.get("uid") != uid_of(owner)]


def has_finalizer(obj: Obj, name: str) -> bool:
    return name in (metadata(obj).get("finalizers") or ())


def with_finalizer(obj: Obj, name: str) -> list[str] | None:
    """None if the finalizer is there, or if it is too late: a server accepts none on a terminating object."""
    if has_finalizer(obj, name) or is_deleting(obj):
        return None
    return [*(metadata(obj).get("finalizers") or ()), name]


def without_finalizer(obj: Obj, name: str) -> list[str] | None:
    if not has_finalizer(obj, name):
        return None
    return [finalizer for finalizer in metadata(obj)["finalizers"] if finalizer != name]
