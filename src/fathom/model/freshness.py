"""How old a view may be for actions that cannot be undone: evicting, deleting, scaling down."""

from __future__ import annotations

# A node's lease is renewed every ten seconds: an older view has missed a renewal of every live node.
FRESH_S = 10.0
# For endpoints: errors from an older view are corrected by the next one.
ENDPOINTS_FRESH_S = 30.0
