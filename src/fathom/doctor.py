"""`fathom doctor`: whether this machine can run a cluster well, and what to do where it cannot.

Each check looks at one thing, and says what it found. A warning costs something that it names; with a
failure, `fathom up` would not work.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from fathom import data_format

State = Literal["ok", "warning", "failure"]

GIB = 1 << 30
DISK_WARN_BYTES, DISK_FAIL_BYTES = 2 * GIB, GIB // 4
MEMORY_WARN_BYTES = GIB
FILES_MIN = 4096
KUBECTL_S = 10.0
EARLIEST_S = 1_704_067_200  # The year 2024: a clock before it was never set.
TIME_ERROR = 5  # What adjtimex(2) returns while nobody has set the clock by another.
ADJTIMEX_BYTES = 512  # More than the kernel's structure has.


class Finding(msgspec.Struct, frozen=True):
    check: str
    state: State
    found: str
    advice: str = ""  # What to do; '' if all is well.


class Examined(msgspec.Struct, frozen=True):
    """What the checks are about."""

    data: Path
    host: str
    port: int


def examine(examined: Examined) -> Iterator[Finding]:
    for check in (
        _python,
        _kernel,
        _memory,
        _disk,
        _data,
        _files,
        _clock,
        _port,
        _addresses,
        _cgroups,
        _isolation,
    ):
        try:
            yield check(examined)
        except OSError as error:
            name = check.__name__.strip("_")
            yield Finding(name, "warning", f"cannot be checked: {error.strerror or error}")
    yield _kubectl()
    yield _etcd()


def _python(_: Examined) -> Finding:
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return Finding("python", "ok", versions)


def _kernel(_: Examined) -> Finding:
    kernel = f"{platform.system()} {platform.release()}, {len(os.sched_getaffinity(0))} cores"
    if platform.system() != "Linux":
        return Finding("kernel", "failure", kernel, "agents need Linux: use a virtual machine")
    return Finding("kernel", "ok", kernel)


def _memory(_: Examined) -> Finding:
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free_bytes = int(fields["MemAvailable"].split()[0]) * 1024
    available = f"{free_bytes / GIB:.1f} GiB available"
    if free_bytes < MEMORY_WARN_BYTES:
        return Finding(
            "memory", "warning", available, "a cluster of three nodes takes about 0.5 GiB: free some"
        )
    return Finding("memory", "ok", available)


def _disk(examined: Examined) -> Finding:
    place = next(path for path in (examined.data, *examined.data.parents) if path.exists())
    if not os.access(place, os.W_OK):
        return Finding(
            "disk", "failure", f"{place} cannot be written", "choose another directory with --data"
        )
    with tempfile.TemporaryFile(dir=place) as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 20)
        os.fsync(file.fileno())
    free_bytes = shutil.disk_usage(place).free
    free = f"{free_bytes / GIB:.1f} GiB free for {examined.data}"
    if free_bytes < DISK_FAIL_BYTES:
        return Finding("disk", "failure", free, "free some, or choose another directory with --data")
    if free_bytes < DISK_WARN_BYTES:
        return Finding("disk", "warning", free, "the records of a busy cluster take up to 2 GiB: free some")
    return Finding("disk", "ok", free)


def _data(examined: Examined) -> Finding:
    try:
        version = data_format.check(examined.data)
    except data_format.UnknownFormat as error:
        return Finding("data", "failure", error.problem, error.advice)
    if not version:
        return Finding("data", "ok", f"{examined.data} is new, or from before format 1")
    return Finding("data", "ok", f"{examined.data} has format {version}")


def _files(_: Examined) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = f"{soft} open files a process"
    if soft < FILES_MIN and hard < FILES_MIN:
        return Finding("files", "warning", limit, f"allow {FILES_MIN}: ulimit -n {FILES_MIN}")
    return Finding("files", "ok", limit)


def _clock(_: Examined) -> Finding:
    now_s = time.time()
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s))
    if now_s < EARLIEST_S:
        return Finding("clock", "failure", now, "set the clock: certificates would not be valid yet")
    is_followed = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(ADJTIMEX_BYTES)) != TIME_ERROR
    how = "set by NTP" if is_followed else "not set by NTP, which only servers on several machines need"
    return Finding("clock", "ok", f"{now}, {how}")


def _port(examined: Examined) -> Finding:
    from fathom.supervise import lock_holders  # noqa: PLC0415

    name = f"{examined.host}:{examined.port}"
    with socket.socket(socket.AF_INET6 if ":" in examined.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((examined.host, examined.port))
        except OSError as error:
            if holders := lock_holders(examined.data):
                return Finding("port", "ok", f"a cluster runs in {examined.data} (process {min(holders)})")
            advice = "another program uses it: choose another port with `fathom up --port`"
            return Finding("port", "failure", f"{name}: {error.strerror}", advice)
    return Finding("port", "ok", f"{name} is free")


def _addresses(_: Examined) -> Finding:
    """Pods and Services have addresses of their own in 127.0.0.0/8."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.99.98.97", 0))
        except OSError as error:
            advice = "pods need all of 127.0.0.0/8 on the loopback interface: ip addr add 127.0.0.1/8 dev lo"
            return Finding("addresses", "failure", f"127.99.98.97: {error.strerror}", advice)
    return Finding("addresses", "ok", "all of 127.0.0.0/8 can be used for pods and Services")


def _cgroups(_: Examined) -> Finding:
    from fathom.agent.host.limits import find_means, remove_groups  # noqa: PLC0415

    name = f"doctor-{os.getpid()}"
    means = find_means(name)
    remove_groups(name)
    if means.kind:
        return Finding("cgroups", "ok", f"cgroups {means.kind}: CPU and memory limits are enforced")
    advice = "run as root, which may make cgroups; deploy/fathom.service does"
    return Finding("cgroups", "warning", means.note, advice)


def _isolation(examined: Examined) -> Finding:
    from fathom.agent.host.machine import UID_MAP, find_rights, pods_can_start  # noqa: PLC0415

    rights, warning = find_rights((examined.data,), allow_root=False)
    if not warning:
        how = "namespaces and users of their own" if rights.root else "namespaces"
        return Finding("isolation", "ok", f"pods are isolated by {how}")
    if not pods_can_start(rights, uid_map=UID_MAP.read_text()):
        return Finding("isolation", "failure", warning, "run it outside of this container, or not as root")
    advice = "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000"
    return Finding("isolation", "warning", warning, advice)


def _kubectl() -> Finding:
    program = shutil.which("kubectl")
    if program is None:
        return Finding("kubectl", "ok", "not installed: `fathom get`, `apply`, `logs` and others do its work")
    output = _output([program, "version", "--client", "-o", "json"])
    try:
        minor = msgspec.json.decode(output, type=_KubectlVersion).client.minor
    except msgspec.MsgspecError:
        return Finding(
            "kubectl", "warning", f"{program} does not say its version", "install kubectl 1.32 or newer"
        )
    version = f"kubectl 1.{minor}"
    if not minor.rstrip("+").isdecimal() or int(minor.rstrip("+")) < 32:
        return Finding("kubectl", "warning", version, "1.32 or newer is tested: install that")
    return Finding("kubectl", "ok", version)


class _ClientVersion(msgspec.Struct):
    minor: str


class _KubectlVersion(msgspec.Struct):
    client: _ClientVersion = msgspec.field(name="clientVersion")


def _output(command: list[str]) -> bytes:
    try:
        return subprocess.run(command, capture_output=True, timeout=KUBECTL_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return b""


def _etcd() -> Finding:
    from importlib.util import find_spec  # noqa: PLC0415

    has_client = find_spec("aetcd") is not None
    return Finding(
        "etcd", "ok", "its client is installed" if has_client else "not needed: the store is SQLite"
    )
