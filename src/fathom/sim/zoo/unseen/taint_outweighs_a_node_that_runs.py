"""Repair ends the pods being deleted on a node with the taint out-of-service although the node is ready: they
are removed from the API while their containers still run."""

from __future__ import annotations

from fathom.controllers.repair import plan
from fathom.sim.zoo import rewrite

ROOM = "controllers/repair"
NOT_FOUND_BECAUSE = "It is one of those invented last. No scenario has been written for it yet."

rewrite(plan._is_out_of_service, 'not is_true(node, "Ready") and any(', "any(")
