"""The two errors of a benchmark; each message is one line for the user."""

from __future__ import annotations


class BenchFailed(Exception):
    """The server gave a wrong answer, lost an event or stopped answering: there is no figure to report."""


class BadTarget(Exception):
    """There is nothing to measure: the kubeconfig, the address or the server's start is at fault."""


class AllSilent(BenchFailed):
    """No connection has brought anything for too long."""
