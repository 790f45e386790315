"""The scheduler does not count pods on a node that it hears of after them: it takes the node for empty."""

from __future__ import annotations

from fathom.schedule.decide.node_table import NodeTable
from fathom.sim.zoo import rewrite

ROOM = "schedule"

rewrite(
    NodeTable.put_node,
    (
        "        for placed in list(self._homeless.get(name, {}).values()):\n"
        "            self._unseat(placed)\n"
        "            self._seat(placed, row)\n"
    ),
    "",
)
