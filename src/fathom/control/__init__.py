"""The controller kit: everything between a snapshot and a write, except the decision itself.

Here: how a key is woken, how a plan is carried out, retried and reported. Never here: what to do about an
object. Next rooms: `schedule`, `controllers`. Start with `process`, or with docs/writing-a-controller.md.
"""
