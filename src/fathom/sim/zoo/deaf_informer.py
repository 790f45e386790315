"""22. A watch without a deadline: when a connection goes dead without a word, its cache waits for ever, and
shows the past (reported of OpenSandbox: six hours)."""

from __future__ import annotations

from fathom.cache.silence import Silence
from fathom.sim.zoo import put_back

SCENARIOS = ("informer-relists",)
BREAKS = "caches equal the store when settled"

put_back(Silence, "_look", lambda self: None)
