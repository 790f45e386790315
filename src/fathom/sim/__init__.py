"""The deterministic world: many Domains under one clock and one oracle, a network and a store that can fail,
invariants that watch, and the tools that find, shrink and replay what goes wrong.

Here: everything around the code under test. Never here: a second version of it; API server, caches, queues,
leases and controllers run unmodified. May import anything but `cli` and `web`.
"""

from __future__ import annotations

from pathlib import Path

# Where failing runs are kept. Here, because `fathom --help` shows it and must not load a world for that.
FAILURES = Path(".fathom-failures")
