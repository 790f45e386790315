"""Small controllers on the real kit, for worlds whose real ones are not built yet.

Each does one thing that a control plane must get right under faults: claim something once, keep a number of
children, count what ended, copy without loops, clean up behind what goes, repair what was left. A real one
takes its stand-in's place, and its scenarios, when it lands. Never here: anything that `fathom up` starts.
"""
