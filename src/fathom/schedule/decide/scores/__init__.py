"""Rules that say which node a pod prefers. Each gives whole numbers, 0 to 100 (or raw ones that are scaled),
so that results are exact on every CPU. `fathom.schedule.decide.rules` lists them with their weights."""
