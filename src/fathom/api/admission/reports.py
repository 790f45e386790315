"""GatewayReports: the gateway may write one condition of pods and one of Services, and nothing else.

Every user's connections reach the gateway first. It reports whether it reaches a pod, and whether connections
to a Service fail.
"""

from __future__ import annotations

from fathom.api.admission.attempt import UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.model.accounts import GATEWAY
from fathom.model.conditions import CONNECTIONS_FAIL, SERVING_CONDITION
from fathom.model.objects import Obj
from fathom.model.view import View

CONDITIONS = {"pods": SERVING_CONDITION, "services": CONNECTIONS_FAIL}


class GatewayReports(Plugin):
    name = "GatewayReports"
    resources = frozenset(CONDITIONS)
    operations = frozenset({UPDATE})
    subresources = frozenset({"status"})
    trusted = True

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        if attempt.user.name != GATEWAY:
            return
        resource = attempt.kind.resource
        condition = CONDITIONS[resource]
        if _without(attempt.obj, condition) != _without(attempt.old, condition):
            allowed = f"the condition {condition} of {resource}"
            raise refused(attempt, f"{GATEWAY} may write only {allowed}")


def _without(obj: Obj | None, condition: str) -> Obj:
    """The status without the gateway's condition."""
    status = (obj or {}).get("status") or {}
    others = [other for other in status.get("conditions") or () if other.get("type") != condition]
    return {**status, "conditions": others}
