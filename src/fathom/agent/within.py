"""Run one command where a container runs: its view of the files, its user, its environment. A program of its
own, for probes and hooks; plain Python, as the shim.

    python -I -S within.py PID UID GID USERNS COMMAND [WORD…]      '-' for a user that is not to be changed
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings  # noqa: F401  # os.execvpe wants it when it is too late to be found.

PR_SET_NO_NEW_PRIVS = 38
SET_ENV_MAX = 1 << 20


def main() -> None:
    pid, uid, gid, users, *argv = sys.argv[1:]
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = [one.split(b"=", 1) for one in file.read(SET_ENV_MAX).split(b"\0") if b"=" in one]
    groups = _groups_of(pid)
    env = {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}
    try:
        _enter(pid, users == "1")
        if uid != "-":
            os.setgroups(groups)
            os.setgid(int(gid))
            os.setuid(int(uid))
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(2, f"{error.strerror}: {error.filename or argv[0]}\n".encode())
        os._exit(126)


def _groups_of(pid: str) -> list[int]:
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        found = next((line for line in file if line.startswith("Groups:")), "")
    return [int(word) for word in found.split()[1:]]


def _enter(pid: str, users: bool) -> None:
    root = os.open(f"/proc/{pid}/root", os.O_PATH)
    here = os.open(f"/proc/{pid}/cwd", os.O_PATH)
    same = os.stat(f"/proc/{pid}/ns/mnt").st_ino == os.stat("/proc/self/ns/mnt").st_ino
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    names = os.open(f"/proc/{pid}/ns/uts", os.O_RDONLY)
    if users:
        _setns(os.open(f"/proc/{pid}/ns/user", os.O_RDONLY))
    if not same:
        _setns(names)
        _setns(mounts)
        os.fchdir(root)
        os.chroot(".")
    os.fchdir(here)


def _setns(fd: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(fd, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


if __name__ == "__main__":
    main()
