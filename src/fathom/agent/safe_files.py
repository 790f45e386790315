"""File operations in directories that a pod can write to.

1. A path that a pod chose, or could change, is never given to the kernel as a whole. It is walked name by
   name from a directory that is open already. A symbolic link ends the walk.
2. What was opened is used by its descriptor, so nothing can take its place between the check and the use.
3. Only plain files with one name are read: no pipes, no devices, no hard links to other users' files.

Plain Python without packages: the shim uses it in the process that becomes the container.
docs/decisions/0019-files-that-pods-can-write.md lists which code opens what, and how.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from itertools import count, islice

TYPE_CHECKING = False
if TYPE_CHECKING:  # Importing `typing` would take as long as all the rest.
    from collections.abc import Iterator, Sequence

PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC  # A place only: pipes do not block, devices do nothing.
MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = ".new~"  # A file being written: no key of a ConfigMap or Secret can have this name.
PATH_MAX = 4096  # Linux's.
BATCH = 1000  # Names of a directory that are held at a time while it is emptied.
ROUNDS_MAX = 10_000_000  # Directories of one tree; it cannot grow meanwhile: its pod has ended.


class Unsafe(OSError):
    """A path that a pod can change leads, or might lead, elsewhere. `strerror` says why."""

    refused = True  # For the shim, which cannot import us before it needs us.


def words_of(error: OSError) -> str:
    text = error.strerror or str(error)
    return f"{error.filename}: {text}" if error.filename else text


def names_in(path: str) -> list[str]:
    names = [name for name in path.split("/") if name not in {"", "."}]
    if path.startswith("/") or ".." in names or "\0" in path:
        raise Unsafe(errno.EINVAL, "leads out of its volume", path)
    if len(path) > PATH_MAX:  # The kernel would reject the whole path; nor do we make so many directories.
        raise Unsafe(errno.ENAMETOOLONG, f"is longer than {PATH_MAX} characters", f"{path[:40]}…")
    return names


@contextlib.contextmanager
def closing(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def open_top(path: str | os.PathLike[str]) -> int:
    """A directory that the agent chose, and that no pod can replace: where a walk begins."""
    return os.open(path, PLACE | os.O_DIRECTORY)


def step(directory: int, name: str) -> int:
    """Open the entry of this name with O_PATH, to be checked before it is opened for real."""
    fd = os.open(name, PLACE, dir_fd=directory)
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise Unsafe(errno.ELOOP, f"{name} is a symbolic link, which is not followed")
    return fd


def walk(top: int, names: Sequence[str]) -> int:
    fd = os.dup(top)
    for name in names:
        with closing(fd):
            fd = step(fd, name)
    return fd


def open_beneath(top: int, path: str) -> int:
    return walk(top, names_in(path))


def set_rights(fd: int, *, mode: int | None = None, uid: int = -1, gid: int = -1) -> None:
    """Set the owner first: changing it clears bits of the mode."""
    if (uid, gid) != (-1, -1):
        os.fchown(fd, uid, gid)
    if mode is not None:
        os.fchmod(fd, mode)


def set_rights_of_place(place: int, *, mode: int, uid: int = -1, gid: int = -1) -> None:
    """For a descriptor opened with O_PATH. Only for the agent, whose /proc is the machine's: in a container
    something else may be mounted there."""
    if (uid, gid) != (-1, -1):
        os.chown(f"/proc/self/fd/{place}", uid, gid)
    os.chmod(f"/proc/self/fd/{place}", mode)


# Creating.


def make_directories(top: int, names: Sequence[str], *, mode: int, gid: int = -1) -> int:
    """Create the missing directories; return the last one, open. Existing ones stay as they are."""
    fd = os.dup(top)
    for name in names:
        with closing(fd):
            fd = _step_or_make(fd, name, mode=mode, gid=gid)
    return fd


def _step_or_make(directory: int, name: str, *, mode: int, gid: int) -> int:
    with contextlib.suppress(FileNotFoundError):
        return step(directory, name)
    with contextlib.suppress(FileExistsError):  # Another container of the pod needs the same one.
        return make_directory(directory, name, mode=mode, gid=gid)
    return step(directory, name)


def make_directory(directory: int, name: str, *, mode: int, gid: int = -1) -> int:
    os.mkdir(name, mode & 0o777, dir_fd=directory)
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        status = os.fstat(fd)
        inherited = 0o2000 & ~mode  # The setgid bit stays as it is.
        if (status.st_mode ^ mode) & 0o7777 & ~inherited or gid not in {-1, status.st_gid}:
            # 1. We make it. 2. The pod moves it away, and another user's directory in its place. 3. We would
            # open that one to all users.
            if status.st_uid != os.geteuid() or status.st_mode & 0o777 & ~mode or _some(fd):
                raise Unsafe(errno.EAGAIN, f"{name} was replaced while it was being made")
            with contextlib.suppress(PermissionError):  # Without root, only a group of our own can be given.
                set_rights(fd, gid=gid)
            set_rights(fd, mode=mode)
    except BaseException:
        os.close(fd)
        raise
    return fd


def make_file(directory: int, name: str, *, mode: int) -> None:
    """Create an empty file, unless something has that name."""
    with contextlib.suppress(FileExistsError), closing(os.open(name, MAKE, 0o600, dir_fd=directory)) as fd:
        set_rights(fd, mode=mode)


def write_file(
    directory: int, name: str, content: bytes, *, mode: int, owner: tuple[int, int] | None = None
) -> None:
    """Write atomically: a reader sees the old file or the new one. What had that name is replaced, never
    written through."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(NEW, dir_fd=directory)
    with open(os.open(NEW, MAKE, 0o600, dir_fd=directory), "wb") as file:
        file.write(content)
        uid, gid = owner if owner is not None else (-1, -1)
        set_rights(file.fileno(), mode=mode, uid=uid, gid=gid)
    os.rename(NEW, name, src_dir_fd=directory, dst_dir_fd=directory)


# Reading.


def read_file(top: int, path: str, bytes_max: int) -> bytes:
    """Read a plain file with one name: with a second hard link it could be a file that the pod itself may not
    read. For the agent only, as `set_rights_of_place`."""
    with closing(open_beneath(top, path)) as place:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode):
            raise Unsafe(errno.EINVAL, "is not a file", path)
        if status.st_nlink > 1:
            raise Unsafe(errno.EMLINK, "has more than one name (hard links), and is not read", path)
        with open(f"/proc/self/fd/{place}", "rb", buffering=0) as file:
            return _read(file.fileno(), bytes_max)


def _read(fd: int, bytes_max: int) -> bytes:
    content = b""
    while len(content) < bytes_max and (chunk := os.read(fd, bytes_max - len(content))):
        content += chunk
    return content


def entries_of(directory: int) -> list[tuple[str, bool]]:
    """Names, and whether each is a directory."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    with closing(os.open(".", flags, dir_fd=directory)) as fd, os.scandir(fd) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


# Removing.


def remove_path(path: str | os.PathLike[str]) -> None:
    """Remove a directory that no pod can replace, with all that pods have put into it."""
    above, name = os.path.split(os.fspath(path))
    with contextlib.suppress(FileNotFoundError), closing(open_top(above)) as parent:
        remove_tree(parent, name)


def remove_tree(parent: int, name: str) -> None:
    """Remove a tree of any depth: a directory that is not empty is moved up to the top before it is emptied,
    so that two descriptors are enough. Links are removed, never followed; another file system is not entered.
    Raises OSError when something stays."""
    try:
        top = _open_to_remove(parent, name, None)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        os.unlink(name, dir_fd=parent)
        return
    with closing(top):
        device, names = os.fstat(top).st_dev, _unused_names()
        for _ in range(ROUNDS_MAX):
            batch = _some(top)
            for entry in batch:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=top)
                    continue
                with closing(_open_to_remove(top, entry.name, device)) as fd:
                    _empty(fd, top, device, names)
                os.rmdir(entry.name, dir_fd=top)
            if not batch:
                break
    os.rmdir(name, dir_fd=parent)


def _unused_names() -> Iterator[str]:
    """Names that the pod could not guess and take."""
    token = os.urandom(8).hex()
    return (f".removed-{token}-{number}" for number in count())


def _open_to_remove(directory: int, name: str, device: int | None) -> int:
    """Open a directory, after giving us access if its owner removed it."""
    with closing(os.open(name, PLACE | os.O_DIRECTORY, dir_fd=directory)) as place:
        status = os.fstat(place)
        if device not in {None, status.st_dev}:
            raise Unsafe(errno.EXDEV, "is on another file system", name)
        if status.st_mode & 0o700 != 0o700:
            set_rights_of_place(place, mode=0o700)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)


def _empty(fd: int, top: int, device: int, names: Iterator[str]) -> None:
    while batch := _some(fd):
        for entry in batch:
            if entry.is_dir(follow_symlinks=False):
                os.close(_open_to_remove(fd, entry.name, device))  # To be moved it must be accessible.
                os.rename(entry.name, next(names), src_dir_fd=fd, dst_dir_fd=top)
            else:
                os.unlink(entry.name, dir_fd=fd)


def _some(fd: int) -> list[os.DirEntry[str]]:
    with os.scandir(fd) as entries:
        return list(islice(entries, BATCH))
