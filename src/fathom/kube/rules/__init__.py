"""Rules for writes of each kind (defaults, validation): one small class each, and a default one.

The rules get a dictionary that belongs to the request, and `prepare_*` may fill it in; `validate_*` only
read it. Neither reads a clock or a store: what they need is in the `WriteMoment`.
"""
