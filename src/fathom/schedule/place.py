"""Choose nodes for pods. Same inputs, same Placements. Next room: commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fathom.schedule.context import Context
from fathom.schedule.pods import PodView
from fathom.schedule.table import NodeTable
from fathom.schedule.verdicts import Verdicts


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    node: str | None  # None means unschedulable: an answer, not an exception.
    rejected: Mapping[str, int] = {}  # Reason -> nodes it removed, for the message and `fathom why`.
    message: str = ""  # Of an unschedulable pod, as kube-scheduler words it.
    helped_by: tuple[str, ...] = ()  # Events that could help an unschedulable pod (see rules.py).
    verdicts: Verdicts | None = None  # Every node's own reason. None before the filters (gated).
    scores: Mapping[str, int] = {}  # The chosen node first, then up to two that scored the same.
    tied: int = 0  # How many nodes scored the same as the chosen one, itself included.
    nodes: int = 0  # How many were looked at.
    capacity_class: str = ""  # The reserved pool that the placement draws on; goes into the binding.
    overrides: tuple[str, ...] = ()  # That the placement rests on: without them it would not be there.
    policy: str = ""
    node_revision: int = 0  # Of the chosen node, as it was seen.
    seen: Mapping[str, int] = {}
    table_version: int = 0


def place(pod: PodView, table: NodeTable, world: Context) -> Placement:
    """The best node for one pod. Changes nothing."""
    raise NotImplementedError


def place_batch(pods: Sequence[PodView], table: NodeTable, world: Context) -> list[Placement]:
    """Nodes for pods of one shape, in order, as `place` and `table.assume` in turn would choose them: each
    placed pod *is assumed* in the table, and whoever fails to commit one calls `table.forget(uid)`. The pass
    is made once; after that only what a placement touched is looked at again."""
    raise NotImplementedError
