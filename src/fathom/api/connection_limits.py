"""How many connections into pods there may be at a time: of one user, and to one node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from fathom.model.errors import too_many_requests

# Each holds two sockets here, and two sockets and some pipes at the agent.
USER_MAX = 100
NODE_MAX = 200


class ConnectionLimits:
    def __init__(self, *, user_max: int = USER_MAX, node_max: int = NODE_MAX) -> None:
        self._user_max, self._node_max = user_max, node_max
        self._users: Counter[str] = Counter()
        self._nodes: Counter[str] = Counter()

    def take(self, user: str, node: str) -> Callable[[], None]:
        """Count one connection; the function returned gives it back. Raises 429 if it is one too many."""
        if self._users[user] >= self._user_max:
            raise too_many_requests(
                f"user {user} has {self._user_max} connections into pods (exec, attach, port-forward): "
                "end some of them first"
            )
        if self._nodes[node] >= self._node_max:
            raise too_many_requests(
                f"node {node} has {self._node_max} connections into its pods (exec, attach, port-forward): "
                "try again later"
            )
        self._users[user] += 1
        self._nodes[node] += 1
        given = False

        def give() -> None:
            nonlocal given
            if not given:
                given = True
                _less(self._users, user)
                _less(self._nodes, node)

        return give


def _less(counts: Counter[str], name: str) -> None:
    counts[name] -= 1
    if counts[name] <= 0:
        del counts[name]
