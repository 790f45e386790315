"""GatewayReports: the gateway, which everybody's connections reach first, says of pods whether it reaches
them, and nothing else."""

from __future__ import annotations

from fathom.api.admission.attempt import UPDATE, Attempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.model.accounts import GATEWAY
from fathom.model.conditions import SERVING
from fathom.model.objects import Obj
from fathom.model.view import View


class GatewayReports(Plugin):
    name = "GatewayReports"
    resources = frozenset({"pods"})
    operations = frozenset({UPDATE})
    subresources = frozenset({"status"})
    trusted = True

    def validate(self, attempt: Attempt, view: View) -> None:
        if attempt.user.name == GATEWAY and _others(attempt.obj) != _others(attempt.old):
            raise refused(attempt, f"{GATEWAY} writes the condition {SERVING} of a pod, and nothing else")


def _others(pod: Obj | None) -> Obj:
    """The status without what the gateway may write."""
    status = (pod or {}).get("status") or {}
    kept = [one for one in status.get("conditions") or () if one.get("type") != SERVING]
    return {**status, "conditions": kept}
