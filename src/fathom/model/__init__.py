"""Types that every package shares: objects, bodies, keys, errors, selectors, quantities.

Here: frozen values and pure functions over them. Never here: I/O, clocks, randomness, or anything that
knows where a value is stored. Next package: `seams`.
"""
