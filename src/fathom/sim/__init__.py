"""The deterministic simulator: a world of processes, network, store and faults; search, reports, checkers.

A world is many Domains under one clock and one oracle, a network and a store that can fail, and checkers that
see every commit. The tools beside it find, shrink and replay failing runs.

Here: everything around the code under test. Never here: a second version of it; API server, caches, queues,
leases and controllers run unmodified. May import anything but `cli` and `web`.
"""

from __future__ import annotations

from pathlib import Path

# Where failing runs are kept. Here, because `fathom --help` shows it and must not load a world for that.
FAILURES = Path(".fathom-failures")
