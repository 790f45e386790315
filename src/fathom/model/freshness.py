"""How old a view may be for what cannot be taken back: to evict, to delete, to scale down."""

from __future__ import annotations

# A node's lease changes every ten seconds: an older view has missed what every living node has said since.
FRESH_S = 10.0
# For endpoints: what is served from an older view is repaired by the next one.
ENDPOINTS_FRESH_S = 30.0
