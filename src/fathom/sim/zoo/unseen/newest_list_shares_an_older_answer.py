"""A list of the newest state, or a refusal, trusts what the store said within the last half second: it may
lack what another server has committed since."""

from __future__ import annotations

from fathom.api.core import Core
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    Core.catch_up,
    "if self.shared_store:",
    "if self.shared_store and self._now_s() - self._current_s > AS_OF_S:",
)
