"""The scheduler around the decision: caches, queue, state, bind requests, what it tells of pods."""
