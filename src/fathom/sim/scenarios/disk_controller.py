"""A controller that makes a disk for every claim, and deletes it with the claim: an example of outside state.

A claim is a ConfigMap, its disk a Secret in another namespace, which no garbage collector handles. The
finalizer is set before the disk is created, and removed after the disk is gone; the mark that says "done" is
written after what it stands for. Each write can be the last one before a crash.

The controller need not have seen a claim's deletion. A disk without its claim, because the request to create
it was slow or because our cache of disks was old, is deleted whenever it is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fathom.cache.indexes import STANDARD
from fathom.cache.needs import NoOlderThan
from fathom.control.kit import Kit
from fathom.control.ownership import has_finalizer
from fathom.control.plan import NOTHING, Create, Delete, Patch, Plan, add_finalizer, remove_finalizer, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import CONFIG_MAP, SECRET, Primary, Related, View, Watch
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, lookup, uid_of

CLOUD = "cloud"  # The namespace where disks are.
CLAIM = "fathom.dev/claim"  # Label of a claim; annotation of a disk: its claim.
PREPARED = "fathom.dev/prepared"
FINALIZER = "fathom.dev/disk"
FRESH_S = 30.0


def disk_name(claim: Obj) -> str:
    return f"disk-{uid_of(claim)}"


def plan_claim(claim: Obj, disk: Obj | None) -> Plan:
    if is_deleting(claim):
        if disk is None:
            return Plan(patches=remove_finalizer("ConfigMap", claim, FINALIZER), why="its disk is gone")
        needs = (NoOlderThan(FRESH_S, ("ConfigMap", "Secret")),)
        return Plan(deletes=(Delete(target("Secret", disk)),), needs=needs, why="the claim is in deletion")
    if not has_finalizer(claim, FINALIZER):
        return Plan(
            patches=add_finalizer("ConfigMap", claim, FINALIZER), why="the finalizer comes before the disk"
        )
    if lookup(claim, "metadata", "annotations", PREPARED):
        return NOTHING
    return Plan(
        creates=(Create("Secret", disk_of(claim)),),
        patches=(marked(claim),),
        why="create the disk, then mark the claim",
    )


def plan_leftovers(disks: Sequence[Obj]) -> Plan:
    """`disks` have no claim, as the API server itself confirmed."""
    deletes = tuple(Delete(target("Secret", disk)) for disk in disks)
    return Plan(deletes=deletes, needs=(NoOlderThan(FRESH_S, ("Secret",)),), why="its claim is gone")


def leftovers(claim: Obj | None, disks: Sequence[Obj]) -> list[Obj]:
    """Disks for a claim's name that are not its own, but those of an earlier claim of the same name."""
    own = disk_name(claim) if claim is not None else ""
    return [disk for disk in disks if key_of(disk).name != own and not is_deleting(disk)]


def disk_of(claim: Obj) -> Obj:
    whose = "/".join(key_of(claim))
    return {"metadata": {"name": disk_name(claim), "namespace": CLOUD, "annotations": {CLAIM: whose}}}


def marked(claim: Obj) -> Patch:
    return Patch(target("ConfigMap", claim), {"metadata": {"annotations": {PREPARED: "true"}}})


def _claim_of(disk: Obj, view: View) -> tuple[Key, ...]:
    namespace, _, name = str(lookup(disk, "metadata", "annotations", CLAIM) or "").partition("/")
    return (Key(namespace, name),) if name else ()


def by_claim(disk: Obj) -> tuple[str, ...]:
    whose = lookup(disk, "metadata", "annotations", CLAIM)
    return (str(whose),) if whose else ()


class Cleanup:
    name = "cleanup"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(CONFIG_MAP, conditions=False),
        Related(SECRET, concerns=_claim_of, indexes={**STANDARD, "claim": by_claim}),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        claim = view.get("ConfigMap", key)
        disks = view.by_index("Secret", "claim", "/".join(key))
        if leftovers(claim, disks):
            return await self._clear(key)
        if claim is None or CLAIM not in labels_of(claim):
            return ReconcileResult.never()
        disk = view.get("Secret", Key(CLOUD, disk_name(claim)))
        return ReconcileResult.after(await self._kit.apply(key, plan_claim(claim, disk), seen=view))

    async def _clear(self, key: Key) -> ReconcileResult:
        """Our cache of claims may be old too: ask the server before anything is deleted."""
        claim = await self._kit.api.get(CONFIG_MAP.resource, key.namespace, key.name)
        view = self._kit.snapshot()
        disks = leftovers(claim, view.by_index("Secret", "claim", "/".join(key)))
        return ReconcileResult.after(
            await self._kit.apply(key, plan_leftovers(disks), seen=view),
            in_s=0.5,
            why="more disks may be left",
        )
