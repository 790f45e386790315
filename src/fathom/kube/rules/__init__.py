"""Rules for writes of each kind (defaults, validation): one small strategy each, and a default one.

A strategy gets a dictionary that belongs to the request, and `prepare_*` may fill it in; `validate_*` only
read it. Neither reads a clock or a store: what they need is in the `WriteMoment`.
"""
