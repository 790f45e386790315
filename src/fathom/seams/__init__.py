"""The only door from deciding code to the outside: time, randomness, identities.

Here: what must be injected so that the same code runs live, simulated and replayed. Never here: what is
decided with it. Next room: `store`.
"""
