"""Repair: finds leftovers by ownership. `plan` says what is removed, `plan_proposals` what people decide."""
