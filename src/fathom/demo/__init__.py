"""`fathom demo`: an incident on a live cluster, told by the commands that a person would type.

Nothing is pretended: each step runs a command as a process of its own and shows what it prints. A step whose
command ends otherwise than it should, or does not say what it should, ends the demonstration.
"""
