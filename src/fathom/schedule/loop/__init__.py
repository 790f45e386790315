"""The scheduler loop around the decision: caches, queue, state, bind requests, pod conditions and events."""
