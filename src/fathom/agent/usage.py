"""CPU and memory usage of containers as agents report it: for `kubectl top` and the autoscaler."""

from __future__ import annotations

import msgspec


class ContainerUsage(msgspec.Struct, frozen=True):
    name: str
    cpu_nano: int  # Of one CPU, averaged over the window.
    memory_bytes: int


class PodUsage(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    containers: tuple[ContainerUsage, ...]


class NodeUsage(msgspec.Struct, frozen=True):
    node: str
    at_ns: int
    window_ns: int
    cpu_nano: int
    memory_bytes: int
    pods: tuple[PodUsage, ...] = ()
