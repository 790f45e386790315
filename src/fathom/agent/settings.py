"""All that the deciding part is told at its start: it is on the tape."""

from __future__ import annotations

from typing import Literal

import msgspec

Driver = Literal["process", "simulated"]


class Script(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a simulated container behaves. A pod may say otherwise, as JSON, in its annotation
    `fathom.dev/simulated`."""

    image_s: float = 0.5  # What fetching the image takes.
    start_s: float = 0.2
    ready_s: float = 0.5  # From its start until its probes pass.
    stop_s: float = 0.1  # From SIGTERM to its end; more than its grace, and it is killed.
    runs_s: float | None = None  # Then it ends by itself.
    exit_code: int = 0
    fail: Literal["", "image", "start", "readiness", "liveness", "crash"] = ""
    fails: int = -1  # How many of its runs fail; -1: all.
    crash_s: float = 1.0  # When a crash comes.
    falters: int = 0  # Every so manieth answer to a probe is a failure; 0: none.
    cpu_milli: int = -1  # What it uses, for metrics; -1: half of what it asked for.
    memory_bytes: int = -1


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    driver: Driver = "process"
    zone: str = ""
    region: str = ""
    labels: dict[str, str] = {}
    capacity: dict[str, str] = {}  # cpu, memory, pods, ...; what is missing the machine or the script says.
    pod_range: str = ""  # See `addresses`; '' follows from the node's name.
    address: str = ""  # At which the node is reached; '' is the first of its range.
    port: int = 0  # Of its endpoint for logs and metrics; 0: there is none.
    certificate: str = ""  # With which that endpoint shows that it is this node's: PEM.
    facts: dict[str, str] = {}  # nodeInfo: kernel, boot, operating system.
    notice: str = ""  # What an operator should know of this node: a protection that could not be had.
    target: str = "api"
    user_agent: str = "fathom-agent"
    script: Script = Script()  # Of the simulated driver.
    lease_s: int = 40  # As kubelet has it.
    renew_s: float = 10.0
    status_s: float = 30.0  # A status that says nothing new is written this often all the same.
    bookmark_s: float = 2.0
    workers: int = 4  # That write statuses.
    drain_s: float = 5.0
