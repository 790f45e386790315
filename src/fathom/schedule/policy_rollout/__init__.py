"""PolicyRollouts: a new scheduling policy, widened step by step."""
