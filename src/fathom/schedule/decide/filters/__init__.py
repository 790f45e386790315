"""Rules that say where a pod cannot go. Each is a function; `fathom.schedule.decide.rules` has them in order.

Pure: rows in, codes out. Nothing here knows the time, chooses at random or talks to anybody.
"""
