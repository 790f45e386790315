"""Filters: the rules that reject nodes. Each is a function; `fathom.schedule.decide.rules` has their order.

Pure: rows in, codes out. No clock, no randomness, no I/O.
"""
