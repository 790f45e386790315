"""Rules that say where a pod would rather go. Each gives whole numbers, 0 to 100 (or raw ones that the pass
scales), so that equality and replay are exact on every CPU. `fathom.schedule.decide.rules` has them with weights."""
