"""What deciding code may use of the outside: time, randomness, identities, requests. Nothing else is allowed.

Here: what must be injected so that the same code runs live, simulated and replayed. Never here: the decisions
themselves. Next room: `store`.
"""
