"""Settings of an agent's deciding part; they are on its tape."""

from __future__ import annotations

from typing import Literal

import msgspec

Driver = Literal["process", "simulated"]


class Script(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a simulated container behaves. A pod may override it, as JSON, in its annotation
    `fathom.dev/simulated`."""

    image_s: float = 0.5  # Time to pull the image.
    start_s: float = 0.2
    ready_s: float = 0.5  # From its start until its probes pass.
    stop_s: float = 0.1  # From SIGTERM to its end; if longer than its grace period, it is killed.
    runs_s: float | None = None  # After so long it ends by itself.
    exit_code: int = 0
    fail: Literal["", "image", "start", "readiness", "liveness", "crash"] = ""
    fails: int = -1  # How many of its runs fail; -1: all.
    crash_s: float = 1.0  # From its start to its crash.
    falters: int = 0  # Every n-th probe fails; 0: none.
    # By a probe's port, its results one after the other: 'x' fails, anything else passes; later ones pass.
    flaps: dict[str, str] = {}
    cpu_milli: int = -1  # Its usage, for metrics; -1: half of its requests.
    memory_bytes: int = -1
    containers: dict[str, Script] = {}  # Scripts of single containers of a pod, by name, in place of this.


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    driver: Driver = "process"
    zone: str = ""
    region: str = ""
    labels: dict[str, str] = {}
    capacity: dict[str, str] = {}  # cpu, memory, pods, ...; defaults: `node.CAPACITY`.
    pod_range: str = ""  # See `addresses`; '' follows from the node's name.
    address: str = ""  # The node's; '' is the first of its range.
    port: int = 0  # Of its endpoint for logs and metrics; 0: none.
    certificate: str = ""  # The endpoint's server certificate: PEM.
    facts: dict[str, str] = {}  # nodeInfo: kernel, boot, operating system.
    notice: str = ""  # A warning for operators: a protection that this machine lacks.
    target: str = "api"
    user_agent: str = "fathom-agent"
    script: Script = Script()  # For the simulated driver.
    scripts: dict[str, Script] = {}  # Of single pods, by the UID of the pod or of its owner.
    takes_over: bool = False  # Another agent's node and containers go on as they are: in a fork.
    lease_s: int = 40  # As in kubelet.
    renew_s: float = 10.0
    status_s: float = 30.0  # An unchanged status is written this often.
    bookmark_s: float = 2.0
    workers: int = 4  # Tasks that write statuses.
    drain_s: float = 5.0
