"""Confine a container's process: user and groups, capabilities, limits, Landlock.

It is applied once, in the process that becomes the container's program; all other processes of the container
are forked from there (`exec_in_container`). Plain Python without packages, as the shim that calls it.
Failures raise.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:  # Importing `typing` would take as long as all the rest.
    from typing import Any

PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 8, 24, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
CAP_VERSION_3, CAP_NET_BIND_SERVICE, CAPS_MAX = 0x20080522, 10, 64
CLONE_NEWUSER = 0x10000000
LANDLOCK_CREATE, LANDLOCK_RESTRICT = 444, 446
LANDLOCK_SIGNALS = 6  # The first version that keeps signals in.
MAKE_BLOCK_DEVICES, SIGNALS = 1 << 11, 1 << 1  # A right that no process here has anyway; a scope.


def confine(spec: dict[str, Any], users: int = -1) -> None:
    """`users`: a user namespace, as `user_namespace` made it. The order matters: the last steps remove the
    rights that the earlier ones need."""
    _limit(spec)
    if users >= 0:
        _call("setns", users, CLONE_NEWUSER)
        os.close(users)
    capabilities = spec.get("capabilities")  # 'all': root, which the operator allowed; None: unchanged.
    keep = CAP_NET_BIND_SERVICE if capabilities == "low_ports" else -1
    if capabilities in {"low_ports", "none"}:
        _drop_from_bounding_set(keep)
    if spec.get("uid") is not None:
        prctl(PR_SET_KEEPCAPS, int(keep >= 0))
        os.setgroups(spec.get("groups") or [])
        os.setgid(spec["gid"])
        os.setuid(spec["uid"])
    if capabilities in {"low_ports", "none"}:
        _set_capabilities(keep)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if spec.get("no_new_privileges"):
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        landlock()


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _limit(spec: dict[str, Any]) -> None:
    if spec.get("files"):  # The agent's own higher limit is not for containers.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (spec["files"], hard))
    for name, most in (spec.get("rlimits") or {}).items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)  # Only root could raise it.
        resource.setrlimit(kind, (limit, limit))


# Users.


def user_namespace(maps: dict[str, str]) -> int:
    """A user namespace with these `uid_map` and `gid_map`; the caller enters it when all that needs more
    rights is done. A process outside of it has to write the maps, and a process in a chroot cannot create
    one: so a process is forked that creates it, waits for its maps, and ends."""
    result_r, result_w = os.pipe()
    wait_r, wait_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run_in_user_namespace(result_w, wait_r, wait_w)
    os.close(result_w)
    os.close(wait_r)
    try:
        if number := int(os.read(result_r, 16) or b"1"):
            raise OSError(number, f"user namespace: {os.strerror(number)}")
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
                file.write(maps[name])
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(result_r)
        os.close(wait_w)
        os.waitpid(pid, 0)


def _run_in_user_namespace(result_w: int, wait_r: int, wait_w: int) -> None:
    """Never returns."""
    try:
        os.close(wait_w)
        _call("unshare", CLONE_NEWUSER)
        os.write(result_w, b"0")
        os.read(wait_r, 1)  # Until the maps are written.
    except OSError as error:
        os.write(result_w, str(error.errno or 1).encode())
    finally:
        os._exit(0)


# Capabilities.


def _drop_from_bounding_set(keep: int) -> None:
    """Drop from the bounding set: no setuid file gives these back. If we may not drop them, we have none."""
    for number in range(CAPS_MAX):
        if number != keep:
            prctl(PR_CAPBSET_DROP, number)


def _set_capabilities(keep: int) -> None:
    """Keep at most the capability to bind ports below 1024, as programs in containers can, also after exec.
    Call it as the container's user; if something fails here, the next exec drops all capabilities."""
    libc, bit = ctypes.CDLL(None), 1 << keep if keep >= 0 else 0
    header = (ctypes.c_uint32 * 2)(CAP_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)(bit, bit, bit)  # Effective, permitted, inheritable; then the upper halves.
    if libc.capset(header, data) == 0 and bit:
        libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, keep, 0, 0)


def landlock() -> int:
    """Enter a new Landlock domain: no process in it may trace or signal a process outside. Without that,
    hidden files could be reached through /proc/PID/root of any process of the same user. Returns the kernel's
    Landlock version; 0: it has none, and nothing is done."""
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    version = max(0, syscall(LANDLOCK_CREATE, None, 0, 1))
    if version:
        rules = (ctypes.c_uint64 * 3)(MAKE_BLOCK_DEVICES, 0, SIGNALS if version >= LANDLOCK_SIGNALS else 0)
        fd = syscall(LANDLOCK_CREATE, rules, 24 if version >= LANDLOCK_SIGNALS else 8, 0)
        if fd >= 0:
            syscall(LANDLOCK_RESTRICT, fd, 0)
            os.close(fd)
    return int(version)


def _call(name: str, *args: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def main() -> None:
    """Exit with 0 if user namespaces with many users can be made here, else with 1."""
    with contextlib.suppress(OSError):
        whole = f"0 {0x71000000} 65536"
        os.close(user_namespace({"uid_map": whole, "gid_map": whole}))
        os._exit(0)
    os._exit(1)


if __name__ == "__main__":
    main()
