"""The controller kit: everything between a view and a write, but for the decision.

Here: how a decision is woken, carried out, tried again and told. Never here: what to do about an object. Next
rooms: `schedule`, `controllers`. Start with `process`, or with docs/writing-a-controller.md.
"""
