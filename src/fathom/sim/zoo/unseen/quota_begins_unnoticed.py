"""A quota that begins does not write the rules of its namespace: a pod that is admitted at that moment is
never counted."""

from __future__ import annotations

from fathom.api.admission.quota import _begins
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    _begins,
    "if attempt.kind.resource != QUOTAS or attempt.subresource or attempt.obj is None:",
    "if True:",
)
