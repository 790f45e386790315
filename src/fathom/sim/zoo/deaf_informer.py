"""22. A watch has no deadline: when its connection dies silently, the cache waits for ever and shows the past
(reported of OpenSandbox: six hours)."""

from __future__ import annotations

from fathom.cache.silence import Silence
from fathom.sim.zoo import put_back

SCENARIOS = ("informer-relists",)
BREAKS = "caches equal the store when settled"

put_back(Silence, "_look", lambda self: None)
