"""Bugs that were invented by reading the code, room by room, before any story was written for them.

Each takes away what a room protects itself with. They measure the stories: a bug names no scenario, and is
searched in all of them (`script/unseen-bugs`). `docs/unseen-bugs.md` has the results.
"""
