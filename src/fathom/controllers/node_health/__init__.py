"""Node health: evidence about nodes, taints, evictions, the brake on both, and trust."""
