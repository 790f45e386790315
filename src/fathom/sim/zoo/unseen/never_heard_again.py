"""Pods that were stopped because the API server did not answer are not looked at when it answers again."""

from __future__ import annotations

from fathom.agent.heartbeat import Heartbeat
from fathom.sim.zoo import rewrite

ROOM = "agent"

rewrite(
    Heartbeat._heard,
    "            self.on_heard()\n",
    "            pass\n",
)
