"""What a process counts, and how Prometheus reads it: numbers, families of them, a registry, the text format.

    count in plain numbers ──(nobody looks: nothing more happens)
    GET /metrics ──> Registry.exposition ──> every collector makes its Families ──> text

Nothing here has a socket, reads a clock or decides anything. A process has one Registry; each part of it
registers a collector under the part's name. Where nobody looks (simulation, replay) it is a NoRegistry: parts
ask `enabled` once, when they are made, and count nothing then. Next rooms: `cache/metrics.py`,
`control/metrics.py`, `schedule/loop/metrics.py` and others, which count; and `endpoint/`, which serves the
text.
"""
