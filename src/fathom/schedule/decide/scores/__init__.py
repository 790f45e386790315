"""Scores: the rules that rank nodes. Each gives whole numbers, 0 to 100 (or raw ones that are scaled), so
that results are exact on every CPU. `fathom.schedule.decide.rules` lists them with their weights."""
