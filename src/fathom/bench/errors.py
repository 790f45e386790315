"""Two ways for a measurement not to happen, each one line for the person who asked."""

from __future__ import annotations


class BenchFailed(Exception):
    """The server gave a wrong answer, lost an event or went silent: there is no figure to report."""


class BadTarget(Exception):
    """There is nothing to measure: the kubeconfig, the address or the server's start is at fault."""
