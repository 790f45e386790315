"""Repair: finds by ownership what others left behind. `plan` says what is removed, `plan_proposals` what
people are asked to decide.
"""
