"""A commit does not expect the namespace as it was seen: an object can be created in a namespace whose
deletion has just begun."""

from __future__ import annotations

from fathom.api.admission.namespaces import NamespaceLifecycle
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    NamespaceLifecycle.charge,
    "if attempt.operation != CREATE or not _lives_in_a_namespace(attempt):",
    "if True:",
)
