"""Explains scheduling decisions: pure functions over the journal, the present objects, and the decider.

Nothing here reads a file or calls a server, and nothing here decides: it runs the scheduler's own decider.
"""
