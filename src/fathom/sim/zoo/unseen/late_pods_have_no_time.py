"""How long a pod may stay beside a taint is counted from the taint, also for pods that came later."""

from __future__ import annotations

from fathom.controllers.node_health.plan_evictions import beside
from fathom.sim.zoo import rewrite

ROOM = "controllers/node_health"

rewrite(
    beside,
    "return {pair: before.get(pair, now_ns) for pair in pairs}",
    (
        "seen = before.items()\n"
        "    first = {each: min((at for (mark, _), at in seen if mark == each), default=now_ns) for "
        "each in taints}\n"
        "    return {pair: first[pair[0]] for pair in pairs}"
    ),
)
