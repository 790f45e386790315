"""ReplicaSets: as many pods as asked for, and which go first when there are too many."""
