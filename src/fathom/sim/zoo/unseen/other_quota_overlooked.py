"""The commit of a binding does not expect the tenant's quota as it was read: a quota that is lowered at
that moment is exceeded."""

from __future__ import annotations

from fathom.api.binding.checks import judge_room
from fathom.sim.zoo import rewrite

ROOM = "api/ledger"

rewrite(
    judge_room,
    '    case.rests_on(TENANT_QUOTAS, Key("", tenant), revision)\n',
    "",
)
