"""A container's mount namespace: hidden paths are covered, volumes are mounted at their mountPath.

    1. a new mount namespace, a UTS namespace with the pod's hostname (and, without root, a user namespace)
    2. a new, empty root, into which each entry of the old one is bind-mounted: so mount points can be made
       anywhere without touching the machine's own files
    3. an empty directory is mounted over each hidden path; the pod's own directory is at /pod
    4. each volume is mounted; no path is looked up through links that a pod may have made

Runs in the container's process before its program, in plain Python as the shim. Failures raise.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # Importing `typing` would take as long as all the rest.
    from typing import Any

    from fathom.agent import safe_files
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import safe_files  # Beside us, no package.

    del sys.path[0]

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER = 0x20000, 0x4000000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC = 1, 2, 4, 32, 4096, 8192, 16384
MS_PRIVATE = 1 << 18
KEPT = MS_NOSUID | MS_NODEV | 8 | 1024 | 2048  # Mount flags that may not be removed.

PLACE = safe_files.PLACE
HOME = "/pod"
LINKS_MAX = 40  # As the kernel's own.


def enclose(plan: dict[str, Any]) -> None:
    """`plan`: userns, stage (an empty directory), home, hide: paths, mounts: [{top, below, to, ro, own}],
    hostname: '' is the machine's own. See `host/mounts.py`."""
    _unshare(bool(plan["userns"]))
    if name := os.fsencode(plan["hostname"]):
        _call("sethostname", name, ctypes.c_size_t(len(name)))
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    home = os.open(plan["home"], PLACE)
    mounts = sorted(plan["mounts"], key=lambda mount: mount["to"].count("/"))
    sources = [
        _source(mount) for mount in mounts
    ]  # Before anything is hidden; after that they are out of reach.
    view = MountView(plan["stage"])
    for path in _highest(plan["hide"]):
        view.hide(path)
    view.place(home, HOME, own=True)
    for mount, source in zip(mounts, sources):  # noqa: B905
        view.place(source, mount["to"], read_only=bool(mount.get("ro")), own=bool(mount.get("own")))
    for fd in (home, *sources):
        os.close(fd)
    view.close()


def _highest(paths: list[str]) -> list[str]:
    """The paths that are not below another of them."""
    return [path for path in dict.fromkeys(paths) if not any(path.startswith(f"{other}/") for other in paths)]


def _source(mount: dict[str, Any]) -> int:
    """Open the source. The agent has checked it; if the pod has changed it since, the start fails."""
    if not mount["below"]:
        return os.open(mount["top"], PLACE)
    try:
        with safe_files.closing(safe_files.open_top(mount["top"])) as top:
            return safe_files.open_beneath(top, mount["below"])
    except OSError as error:
        message = f"the source of mount {mount['to']} changed meanwhile: {safe_files.words_of(error)}"
        raise safe_files.Unsafe(error.errno, message) from None


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


class MountView:
    """The new root. Each mount is prepared on a spare mount point in it, which no pod can reach, and then
    moved to its place by descriptor: no path is looked up through what a pod can change."""

    def __init__(self, stage: str) -> None:
        _mount("tmpfs", stage, "tmpfs", MS_NOSUID, "size=1m,mode=755")
        os.chdir("/proc")
        with safe_files.closing(os.open("/", PLACE)) as old, safe_files.closing(os.open(stage, PLACE)) as new:
            _show_again(old, new)
        os.chroot(stage)
        os.chdir("/proc")  # Mounts name descriptors relative to it, whatever is mounted at /proc later.
        self._root = os.open("/", PLACE)
        self._own_devices = {
            os.fstat(self._root).st_dev
        }  # Our own file systems, in which we may create files.
        # Mounted volumes by path, and whether mount points may be created in them.
        self._placed: dict[tuple[str, ...], bool] = {}
        # Two spare mount points, for a directory and a file, with names that no pod can guess.
        self._directory, self._file = (f"/.fathom-{os.urandom(8).hex()}" for _ in range(2))
        os.mkdir(self._directory, 0o755)
        safe_files.make_file(self._root, self._file[1:], mode=0o644)

    def close(self) -> None:
        os.rmdir(self._directory)
        os.unlink(self._file)
        os.close(self._root)
        os.chdir("/")

    def hide(self, path: str) -> None:
        """Cover the path with an empty directory, or an empty file."""
        try:
            target = self._pinned(safe_files.names_in(path.lstrip("/")))
        except FileNotFoundError:
            return
        with safe_files.closing(target):
            if stat.S_ISDIR(os.fstat(target).st_mode):
                _mount("tmpfs", self._directory, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=755")
                _move(self._directory, target)
            else:
                with safe_files.closing(os.open("/dev/null", PLACE)) as nothing:
                    _mount(_at(nothing), _at(target), None, MS_BIND)

    def _pinned(self, names: list[str]) -> int:
        """Open the path; each directory on the way becomes a mount point, which no process here can rename.
        Else: 1. a pod that has the rights of their owner mounts a host path; 2. it moves a directory that
        contains a hidden path there; 3. it reads that through its mount, in which nothing is hidden."""
        fd = safe_files.walk(self._root, names[:1])  # What is in the root is a mount point already.
        for name in names[1:-1]:
            with safe_files.closing(fd):
                with safe_files.closing(safe_files.step(fd, name)) as above:
                    _mount(_at(above), _at(above), None, MS_BIND | MS_REC)
                fd = safe_files.step(fd, name)
        with safe_files.closing(fd):
            return safe_files.walk(fd, names[1:][-1:])

    def place(self, source: int, path: str, *, read_only: bool = False, own: bool = False) -> None:
        is_directory = stat.S_ISDIR(os.fstat(source).st_mode)
        try:
            names, target = self._target(path, is_directory=is_directory)
        except safe_files.Unsafe as error:
            raise safe_files.Unsafe(error.errno, f"mountPath {path}: {error.strerror}") from None
        with safe_files.closing(target):
            spare = self._directory if is_directory else self._file
            _mount(_at(source), spare, None, MS_BIND | MS_REC)
            if read_only:
                flags = os.statvfs(spare).f_flag & KEPT
                _mount(None, spare, None, MS_REMOUNT | MS_BIND | MS_RDONLY | flags)
            _move(spare, target)
        self._placed[names] = own

    def _target(self, path: str, *, is_directory: bool, links: int = 0) -> tuple[tuple[str, ...], int]:
        """The mount point, created if missing, and the path by which it was reached. Links of the machine
        (/var/run) are followed, inside the new root. Links in volumes and in world-writable directories are
        not: a pod may have made them."""
        names = tuple(safe_files.names_in(path.lstrip("/")))
        if names[:1] in {(), ("proc",)}:  # As with container runtimes. We need /proc ourselves.
            raise safe_files.Unsafe(errno.EPERM, f"nothing can be mounted over /{'/'.join(names)}")
        fd, trusted = os.dup(self._root), True
        for index, name in enumerate(names):
            with safe_files.closing(fd):
                trusted = trusted and names[:index] not in self._placed and not os.fstat(fd).st_mode & 0o002
                try:
                    fd, link = _step(fd, name, trusted=trusted and links < LINKS_MAX)
                except FileNotFoundError:
                    return names, self._make(fd, names, index, is_directory=is_directory)
            if link:
                onward = os.path.join("/", *names[:index], link, *names[index + 1 :])
                return self._target(os.path.normpath(onward), is_directory=is_directory, links=links + 1)
        return names, fd

    def _make(self, fd: int, names: tuple[str, ...], index: int, *, is_directory: bool) -> int:
        """Create what is missing from `index` on. In a volume of the pod itself it is created there, so that
        all containers see the same volume. Elsewhere a directory of our own covers the machine's, shows its
        entries, and gets the new one."""
        above = next((names[:at] for at in range(index, 0, -1) if names[:at] in self._placed), ())
        may_make = os.fstat(fd).st_dev in self._own_devices or self._placed.get(above, False)
        with safe_files.closing(os.dup(fd) if may_make else self._cover(fd)) as base:
            last = names[-1]
            with safe_files.closing(
                safe_files.make_directories(base, names[index:-1], mode=0o755)
            ) as directory:
                if is_directory:
                    return safe_files.make_directories(directory, [last], mode=0o755)
                safe_files.make_file(directory, last, mode=0o644)
                return safe_files.step(directory, last)

    def _cover(self, fd: int) -> int:
        """Mount a directory of our own over an existing one, with its entries and its rights: users who could
        write to /tmp still can. If only its owner can write, nothing but mount points will be added, so it is
        small."""
        status = os.fstat(fd)
        small = "" if status.st_mode & 0o002 else "size=1m,"
        options = f"{small}mode={status.st_mode & 0o7777:o}"
        _mount("tmpfs", self._directory, "tmpfs", MS_NOSUID, options)
        new = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # A user who has no ID in our user namespace.
            safe_files.set_rights(new, uid=status.st_uid, gid=status.st_gid)
        _show_again(fd, new)
        _move(self._directory, fd)
        self._own_devices.add(os.fstat(new).st_dev)
        return new


def _step(directory: int, name: str, *, trusted: bool) -> tuple[int, str]:
    """The entry of this name, or the target if it is a link that may be followed."""
    if not trusted:
        return safe_files.step(directory, name), ""
    fd = os.open(name, PLACE, dir_fd=directory)
    if not stat.S_ISLNK(os.fstat(fd).st_mode):
        return fd, ""
    with safe_files.closing(fd):
        return -1, os.readlink("", dir_fd=fd)


def _show_again(old: int, new: int) -> None:
    """Show every entry of a directory in another that is ours alone: links are copied, the rest is
    bind-mounted."""
    with safe_files.closing(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=old)) as listed:
        names = sorted(os.listdir(listed))
    for name in names:
        try:
            fd = os.open(name, PLACE, dir_fd=old)
        except OSError:
            continue  # It is gone, or we may not see it: nor could the program.
        with safe_files.closing(fd):
            _show_entry(fd, name, new)


def _show_entry(fd: int, name: str, new: int) -> None:
    kind = os.fstat(fd).st_mode
    if stat.S_ISLNK(kind):
        os.symlink(os.readlink("", dir_fd=fd), name, dir_fd=new)
        return
    if stat.S_ISDIR(kind):
        os.mkdir(name, 0o755, dir_fd=new)
    else:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=new))
    with safe_files.closing(os.open(name, PLACE, dir_fd=new)) as target:
        _mount(_at(fd), _at(target), None, MS_BIND | MS_REC)


def _at(fd: int) -> str:
    """The descriptor's path relative to /proc, our working directory while mounting."""
    return f"self/fd/{fd}"


def _move(spare: str, target: int) -> None:
    _mount(spare, _at(target), None, MS_MOVE)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    _call(
        "mount",
        _text(source),
        _text(target),
        _text(kind),
        ctypes.c_ulong(flags),
        _text(options),
        target=target,
    )


def _text(value: str | None) -> bytes | None:
    return None if value is None else os.fsencode(value)


def _call(name: str, *args: object, target: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}", target)


def main() -> None:
    """Test whether it works here: `mount_namespace.py STAGE HOME [users]` tries it, and prints what
    failed."""
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
