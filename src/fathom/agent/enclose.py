"""A container's own view of the files: what a pod must not see is covered, what it mounts is where it says.

    1. a namespace of mounts of our own, one with the host's name (and, without root, one of users)
    2. a new root, empty, in which everything of the old one is shown again: so mount points can be made
       anywhere without touching the machine's own files
    3. what is to be hidden gets an empty directory over it; the pod's own directory is at /pod
    4. each mount is put in its place

Runs in the container's process before its program, in the shim's plain Python. Failing is raised.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # Importing `typing` would take as long as all the rest.
    from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER = 0x20000, 0x4000000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18

HOME = "/pod"


def enclose(plan: dict[str, Any]) -> None:
    """`plan`: userns, stage (an empty directory), home, hide: paths, mounts: [{from, to, ro}], hostname: ''
    is the machine's own."""
    _unshare(bool(plan["userns"]))
    if name := os.fsencode(plan["hostname"]):
        _call("sethostname", name, ctypes.c_size_t(len(name)))
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    sources = {
        path: os.open(path, os.O_PATH) for path in [plan["home"], *(m["from"] for m in plan["mounts"])]
    }
    _new_root(plan["stage"])
    for path in plan["hide"]:
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=755")
    _bind(sources[plan["home"]], HOME)
    for one in sorted(plan["mounts"], key=lambda one: one["to"].count("/")):
        _place(one["to"], is_dir=os.path.isdir(f"/proc/self/fd/{sources[one['from']]}"))
        _bind(sources[one["from"]], one["to"], read_only=bool(one.get("ro")))
    for fd in sources.values():
        os.close(fd)


def _unshare(users: bool) -> None:
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", CLONE_NEWNS | CLONE_NEWUTS | (CLONE_NEWUSER if users else 0))
    if users:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)


def _new_root(stage: str) -> None:
    _mount("tmpfs", stage, "tmpfs", MS_NOSUID, "size=1m,mode=755")
    _show_again("/", stage)
    if not os.path.lexists(f"{stage}{HOME}"):
        os.mkdir(f"{stage}{HOME}", 0o755)
    os.chroot(stage)
    os.chdir("/")


def _show_again(old: str, new: str) -> None:
    """Every entry of a directory, in another: links as links, the rest as it is."""
    for entry in sorted(os.scandir(old), key=lambda entry: entry.name):
        path, there = entry.path, f"{new}/{entry.name}"
        try:
            if entry.is_symlink():
                os.symlink(os.readlink(path), there)
                continue
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        except OSError:
            continue  # It went away, or we may not see it: nor would the program.
        _make(there, is_dir=entry.is_dir(follow_symlinks=False))
        _bind(fd, there)
        os.close(fd)


def _place(path: str, *, is_dir: bool) -> None:
    """A mount point at `path`. Where it is missing, the deepest directory that is there is shown again in one
    of our own, and the rest is made in that."""
    if os.path.lexists(path):
        return
    parts = path.strip("/").split("/")
    base, missing = "", parts
    while missing and os.path.isdir(f"{base}/{missing[0]}"):
        base, missing = f"{base}/{missing[0]}", missing[1:]
    if base and not _is_ours(base):
        _cover(base)
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    _make(path, is_dir=is_dir)


def _cover(base: str) -> None:
    """A directory of our own over one that is there, with its entries and its rights: who could write to /tmp
    still can. Where only its owner can, nothing but mount points will be added."""
    entries, found = os.open(base, os.O_PATH), os.stat(base)
    small = "" if found.st_mode & 0o002 else "size=1m,"
    _mount("tmpfs", base, "tmpfs", MS_NOSUID, f"{small}mode={found.st_mode & 0o7777:o}")
    with contextlib.suppress(OSError):  # Somebody whom our namespace of users does not know.
        os.chown(base, found.st_uid, found.st_gid)
    _show_again(f"/proc/self/fd/{entries}", base)
    os.close(entries)


def _is_ours(path: str) -> bool:
    """On the new root itself, in which we may make what we like."""
    return os.stat(path).st_dev == os.stat("/").st_dev


def _make(path: str, *, is_dir: bool) -> None:
    if is_dir:
        os.mkdir(path, 0o755)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _bind(fd: int, path: str, *, read_only: bool = False) -> None:
    _mount(f"/proc/self/fd/{fd}", path, None, MS_BIND | MS_REC)
    if read_only:
        kept = os.statvfs(path).f_flag & (
            MS_NOSUID | MS_NODEV | 8 | 1024 | 2048
        )  # What may not be taken away.
        _mount(None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    _call(
        "mount", _text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(options), said=target
    )


def _text(value: str | None) -> bytes | None:
    return None if value is None else os.fsencode(value)


def _call(name: str, *args: object, said: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}", said)


def main() -> None:
    """Whether it can be done here: `enclose.py STAGE HOME [users]` tries it, and says what failed."""
    stage, home, *users = sys.argv[1:]
    try:
        plan = {
            "userns": bool(users),
            "stage": stage,
            "home": home,
            "hostname": "x",
            "hide": [],
            "mounts": [],
        }
        enclose(plan)
    except OSError as error:
        sys.exit(f"{error.strerror} {error.filename or ''}".strip())


if __name__ == "__main__":
    main()
