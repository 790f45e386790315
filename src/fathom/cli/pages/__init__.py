"""The page of each command: what it does, what it prints, its options and examples.

Here: pages read from the commands themselves (their docstrings and parameters), and the same pages as help,
as man pages, as Markdown, and as candidates for a shell's completion. Never here: what a command does.
"""
