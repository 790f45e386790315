"""What differs between kinds when they are written: one small strategy each, and a default for the rest.

A strategy is given a dictionary that belongs to the request, and may fill it in (`prepare_*`); `validate_*`
only look. Neither reads a clock or a store: what they need is in the `Moment`.
"""
