"""The nodes as columns. (Contract; being filled in.)"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fathom.model.objects import Obj
from fathom.schedule.context import Reserved
from fathom.schedule.pods import PodView
from fathom.schedule.shape import Needs


class NodeTable:
    """Nodes and the pods on them. Rows are stable: a removed node's row is used again by a later one."""

    version: int  # Grows with every change that a rule could see.
    nodes_version: int  # Grows when nodes, namespaces or reserved classes change, not when pods do.

    def __len__(self) -> int: ...
    def put_node(self, obj: Obj) -> bool:
        """Added or changed; False if nothing that any rule reads is different."""

    def remove_node(self, name: str) -> bool: ...
    def put_namespace(self, name: str, labels: Mapping[str, str]) -> bool: ...
    def remove_namespace(self, name: str) -> bool: ...
    def set_reserved(self, classes: Iterable[Reserved]) -> bool:
        """The CapacityClasses there are."""

    def put_pod(self, view: PodView) -> bool:
        """A pod as the cache has it. A bound, unfinished one counts on its node (also when the node
        is not known yet); any other counts nowhere. It confirms, or corrects, what was assumed of the pod:
        an unbound view does not undo an assumption, since the cache may not have caught up: `forget` does."""

    def remove_pod(self, uid: str) -> bool: ...
    def assume(self, view: PodView, node: str, *, capacity_class: str = "") -> None:
        """Count a pod on a node ahead of the cache."""

    def forget(self, uid: str) -> bool:
        """The assumption did not come true. A pod that the cache has bound by now stays."""

    def assumed(self, uid: str) -> str | None: ...
    def claim(self, holder: str, node: str, needs: Needs, *, priority: int, tenant: str = "") -> None:
        """Room kept for a nominated pod (its priority: lower ones do not get it) or for a Reservation (the
        highest int). The holder's own pod does not see it."""

    def unclaim(self, holder: str) -> bool: ...
    def changed_since(self, version: int) -> list[str] | None:
        """Names of nodes whose pods changed; None: too long ago, or nodes changed too. Look at all."""
