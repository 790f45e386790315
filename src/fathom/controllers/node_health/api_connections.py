"""Asks the API server whether it reaches a silent node, on a path that the agent's heartbeats do not take.

Only nodes in doubt are asked about, one request at a time for each, a few at once.

The answer is evidence, not a decision:

    alive     the agent answered the API server
    unsure    the machine answered, the agent did not: it may have died and left its pods running
    gone      nothing answered at the node's address, three times in a row
"""

from __future__ import annotations

import asyncio

import msgspec

from fathom.client.api import own_resource
from fathom.control.kit import Kit
from fathom.controllers.node_health.evidence import NodeReport, Verdict
from fathom.kinds import node_connection
from fathom.model.errors import ApiError
from fathom.model.objects import lookup
from fathom.model.times import SECOND_NS

NODE_CONNECTIONS = own_resource(node_connection.DEFINITION)
EVERY_S = 5.0
AT_ONCE = 16
# A single failure may be a full backlog, or a cable being moved.
FAILED_MIN = 3
VALID_S = 30.0  # An older answer says nothing about now.

WORDS: dict[Verdict, str] = {
    "gone": "the API server does not reach the node",
    "alive": "the API server reaches the agent",
    "unsure": "the machine answers, its agent does not",
}


class _ConnectionCheck(msgspec.Struct):
    asked_ns: int
    answered_ns: int | None = None
    verdict: Verdict | None = None
    failed: int = 0  # In a row.


class Connections:
    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._nodes: dict[str, _ConnectionCheck] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def ask(self, node: str) -> None:
        """Asks soon, unless the last request was a moment ago, or too many are under way."""
        now_ns, check = self._kit.monotonic_ns(), self._nodes.get(node)
        if node in self._asking or len(self._asking) >= AT_ONCE:
            return
        if check is None:
            self._nodes[node] = check = _ConnectionCheck(now_ns)
        elif now_ns - check.asked_ns < EVERY_S * SECOND_NS:
            return
        check.asked_ns = now_ns
        task = asyncio.get_running_loop().create_task(self._ask(node, check), name=f"connection of {node}")
        self._asking[node] = task
        task.add_done_callback(lambda _: self._asking.pop(node, None))

    def forget(self, node: str) -> None:
        """The node's heartbeats are back, or the node is deleted."""
        self._nodes.pop(node, None)

    def report(self, node: str) -> NodeReport | None:
        check = self._nodes.get(node)
        if check is None or check.verdict is None or check.answered_ns is None:
            return None
        if self._kit.monotonic_ns() - check.answered_ns > VALID_S * SECOND_NS:
            return None
        if check.verdict == "gone" and check.failed < FAILED_MIN:
            return None
        return NodeReport("connection", check.verdict, WORDS[check.verdict])

    async def _ask(self, node: str, check: _ConnectionCheck) -> None:
        try:
            connection = await self._kit.api.get(NODE_CONNECTIONS, "", node)
        except ApiError:
            return  # The API server's problem, or ours: it says nothing about the node.
        verdict = lookup(connection or {}, "status", "verdict")
        if verdict not in WORDS:
            return
        check.verdict, check.answered_ns = verdict, self._kit.monotonic_ns()
        check.failed = check.failed + 1 if verdict == "gone" else 0
