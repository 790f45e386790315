"""Metrics of a process for Prometheus: counters, families, a registry, the text format.

    count in plain numbers ──(no scrape: nothing more happens)
    GET /metrics ──> Registry.exposition ──> every collector makes its Families ──> text

Nothing here has a socket, reads a clock or decides anything. A process has one Registry; each part of it
registers a collector under the part's name. Where metrics are not read (simulation, replay) it is a
NoRegistry: parts ask `enabled` once, when they are made, and then count nothing. Next packages:
`cache/metrics.py`, `control/metrics.py`, `schedule/loop/metrics.py` and others, which count; and `endpoint/`,
which serves the text.
"""
