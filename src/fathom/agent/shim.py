"""The shim: starts one run of a container, waits for it, writes its log and records its end.

    agent ──spawn──> python -I -S shim.py SPEC ──fork, setsid, fork──> shim (reparented) ──fork──> it
                       └── reports how the start went, and ends

It outlives the agent, so nothing is lost when the agent restarts: `run.json` names the processes (pid and
start time), the log is beside it, and `exit.json` is written before the shim ends. Plain Python without
packages, so that it starts quickly and stays small. If the shim is killed, the kernel kills the container's
first process, and the agent kills the processes that it had started (`host/orphan_processes.py`): nothing
runs unattended. The same if its directory is deleted: it ends the program.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # Importing `typing` would take as long as all the rest.
    from io import FileIO
    from typing import Any

PR_SET_CHILD_SUBREAPER = 36
LINE_BYTES_MAX = 16 * 1024  # As container runtimes cut long lines.
FALLBACK_BYTES, FALLBACK_LINES = 2048, 80  # kubelet's.
RESERVED_BYTES = 8192  # More than an exit record takes, with a message of usual length.
HEAD_BYTES = 64  # More than the prefix of a log line.
RECORD_TRIES = 600  # A second apart.
LOOK_S = 5.0  # How often to see whether the directory is still there.
DRAIN_S = 2.0  # How long output may still come after the program has ended.
NOT_FOUND, NOT_EXECUTABLE, NOT_STARTED = 127, 126, 128
REFUSED = "refused "  # Reported instead of a run: it must not be started as it is.
MESSAGE_BYTES_MAX = 4096  # kubelet's.
# The reason of an end for want of memory (`model/reasons.py`; this file imports nothing of fathom). A program
# that is refused memory ends by itself, somewhat below the limit.
MEMORY_REFUSED, NEAR_LIMIT = "MemoryRefused", 0.8
# What programs say when they get no memory.
OUT_OF_MEMORY = (
    "MemoryError",
    "annot allocate memory",
    "std::bad_alloc",
    "OutOfMemoryError",
    "out of memory",
)


def main() -> None:
    os.closerange(3, 1 << 16)  # Descriptors leaked by the agent would stay open as long as we live.
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    os.unlink(sys.argv[1])  # It may hold secrets.
    report_r, report_w = os.pipe()
    if os.fork():
        os.close(report_w)
        with os.fdopen(report_r, "rb") as reader:
            report = reader.read()
        os.write(1, report)
        os._exit(0 if report == b"ok" else 1)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.close(report_r)
    _leave_terminal()
    Shim(spec, report_w).live()
    os._exit(0)


def _leave_terminal() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)


def started_at(pid: int) -> int:
    """Start time in ticks since boot: together with the pid it identifies a process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def not_through_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def reserve(path: str) -> None:
    """Reserve room for the exit record: at the end the disk may be full."""
    with open(f"{path}.new", "wb", opener=not_through_links) as file:
        file.write(bytes(RESERVED_BYTES))


def write_whole(path: str, content: object) -> None:
    """Write atomically: there is always the old file or the new one."""
    new = f"{path}.new"
    with open(os.open(new, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.truncate(file.fileno(), file.tell())  # Not earlier: that would give back the reserved room.
        os.fsync(file.fileno())
    os.replace(new, path)


class Shim:
    def __init__(self, spec: dict[str, Any], report_fd: int) -> None:
        self._spec = spec
        self._report_fd = report_fd
        self._directory: str = spec["directory"]
        self._status: int | None = None  # The container's wait status, once it has ended.
        self._pid = 0
        self._attached: Any  # Clients of `kubectl attach`.
        self._began_ns = 0
        self._ooms_before = self._ooms()

    def live(self) -> None:
        try:
            self._live()
        except OSError as error:  # A full disk. Nothing may run without a record.
            self._end_the_rest()
            self._report(f"{error.strerror}: {error.filename or self._directory}".encode())

    def _live(self) -> None:
        if not self._claim():
            self._report(b"another run of this container is still running")
            return
        self._log = ContainerLog(self._spec["log"], self._spec["log_bytes"], self._spec["log_files"])
        reserve(f"{self._directory}/exit.json")
        # Processes that the program leaves behind become our children, to be killed.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        wake_r, wake_w = os.pipe()
        os.set_blocking(wake_w, False)
        os.set_blocking(wake_r, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import attach_to_container  # type: ignore[import-not-found]  # noqa: PLC0415  # Beside us, no package.

        terminal = bool(self._spec.get("terminal"))
        streams = attach_to_container.ProgramStreams(stdin=bool(self._spec.get("stdin")), terminal=terminal)
        failed = self._start(streams)
        if failed:
            os.waitpid(self._pid, 0)
            if failed[1].startswith(REFUSED):
                self._report(failed[1].encode())
                return
            self._record_exit(failed[0], 0, "StartError", failed[1])
            self._report(failed[1].encode())
            return
        self._record_run()
        poll = select.poll()
        import run_socket  # type: ignore[import-not-found]  # noqa: PLC0415

        name, clients_max = attach_to_container.SOCKET, attach_to_container.CLIENTS_MAX
        self._attached = attach_to_container.AttachedClients(
            run_socket.listening(self._directory, name, clients_max), poll, streams.stdin,
            once=bool(self._spec.get("stdin_once")), terminal=terminal,
        )  # fmt: skip
        self._report(b"ok")
        self._follow(poll, streams.readers, wake_r)
        self._attached.close()
        self._conclude()

    def _claim(self) -> bool:
        """One run of a container at a time, whatever agents do: 1. an agent starts us and is killed before it
        learns of it; 2. the next one finds no run, and starts another shim; 3. that shim finds this lock
        held."""
        lock = os.open(self._spec["lock"], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # Held as long as we live.
        except OSError:
            return False
        return True

    def _report(self, report: bytes) -> None:
        if self._report_fd < 0:
            return
        with contextlib.suppress(OSError):  # The agent is gone: the next one will read our records.
            os.write(self._report_fd, report)
        os.close(self._report_fd)
        self._report_fd = -1

    # The start.

    def _start(self, streams: Any) -> tuple[int, str] | None:
        """None, or the exit code and message of a failed start."""
        failed_r, failed_w = os.pipe()
        self._began_ns = time.time_ns()
        self._pid = os.fork()
        if self._pid == 0:
            self._become(streams, failed_w)
        os.close(failed_w)
        with os.fdopen(failed_r, "rb") as file:
            text = file.read().decode("utf-8", "replace")
        streams.given(self._pid)
        if not text:
            return None
        code, _, message = text.partition(" ")
        return int(code), message

    def _become(self, streams: Any, failed: int) -> None:
        """Become the container's program. Never returns."""
        spec, code = self._spec, NOT_STARTED
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            streams.give()
            for group in spec.get("cgroups") or ():
                with open(group, "w", encoding="ascii") as file:
                    file.write("0")
            os.umask(0o022)  # Also for directories created for mount points.
            self._confine()
            code, env = NOT_FOUND, spec["env"]
            if spec.get("terminal"):
                env = {"TERM": "xterm", **env}  # As container runtimes do.
            os.execve(_find_program(spec["argv"][0], env), spec["argv"], env)
        except FileNotFoundError as error:
            os.write(failed, f"{code} {_error_text(error, spec)}".encode())
        except BaseException as error:  # Every failure is reported to the parent.
            code = NOT_EXECUTABLE if code == NOT_FOUND else code
            refused = REFUSED if getattr(error, "refused", False) else ""
            os.write(failed, f"{code} {refused}{_error_text(error, spec)}".encode())
        os._exit(code)

    def _confine(self) -> None:
        """Enter the container's namespaces and limits. Steps that need to be outside come first."""
        spec, shim, exec_socket, users = self._spec, os.getppid(), -1, -1
        import confine  # type: ignore[import-not-found]  # noqa: PLC0415  # Beside us, no package.
        import system_calls  # type: ignore[import-not-found]  # noqa: PLC0415

        if spec.get("execs"):
            import exec_in_container  # type: ignore[import-not-found]  # noqa: PLC0415
            import run_socket  # noqa: PLC0415

            name, waiting_max = exec_in_container.SOCKET, exec_in_container.WAITING_MAX
            exec_socket = run_socket.listening(self._directory, name, waiting_max).detach()
        if spec.get("users"):
            users = confine.user_namespace(spec["users"])
        if spec.get("enclose"):
            import mount_namespace  # type: ignore[import-not-found]  # noqa: PLC0415

            mount_namespace.enclose(spec["enclose"])
        confine.confine(spec, users)
        system_calls.refuse_calls()
        # Only now: root may enter every directory, and by /proc/PID/root the files of any other process.
        _enter(spec["cwd"])
        if spec.get("execs"):
            commands = exec_in_container.ExecCommands(spec["env"], _find_program)
            exec_in_container.leave_keeper(commands, exec_socket, shim)

    def _record_run(self) -> None:
        me = os.getpid()
        write_whole(
            f"{self._directory}/run.json",
            {
                **self._spec["record"],
                "pid": self._pid,
                "pid_started": started_at(self._pid),
                "shim": me,
                "shim_started": started_at(me),
                "started_ns": self._began_ns,
                "mounts": self._mounts(),
            },
        )

    def _mounts(self) -> int:
        """Its mount namespace: identifies the processes it started, should we be killed."""
        try:
            return os.stat(f"/proc/{self._pid}/ns/mnt").st_ino if self._spec.get("enclose") else 0
        except OSError:
            return 0

    # Running.

    def _follow(self, poll: select.poll, readers: dict[int, str], wake: int) -> None:
        """Read output until the program has ended and its pipes are closed."""
        for fd in (*readers, wake):
            poll.register(fd, select.POLLIN)
        deadline_s, look_s = 0.0, time.monotonic() + LOOK_S
        while readers or self._status is None:
            left_s = (deadline_s or look_s) - time.monotonic()
            for fd, event in poll.poll(max(0, round(left_s * 1000))):
                if fd == wake:
                    os.read(wake, 512)
                elif self._attached.serves(fd):
                    self._attached.handle(fd)
                elif fd in readers:
                    if event & select.POLLOUT:
                        self._attached.write_on()
                    if event & ~select.POLLOUT and not self._read(fd, readers[fd]):
                        poll.unregister(fd)
                        del readers[fd]
            self._reap()
            if time.monotonic() >= look_s:
                look_s += LOOK_S
                if not os.path.isdir(self._directory):  # No agent would ever find the program again.
                    self._end_the_rest()
            if self._status is not None and not deadline_s:
                self._end_the_rest()
                deadline_s = time.monotonic() + DRAIN_S
            if deadline_s and time.monotonic() >= deadline_s:
                return

    def _read(self, fd: int, name: str) -> bool:
        try:
            chunk = os.read(fd, 65536)
        except BlockingIOError:
            return True
        except OSError:  # Of a terminal: nobody has its other end any more.
            chunk = b""
        self._log.write(name, chunk)
        if chunk:
            self._attached.tell(name, chunk)
        return bool(chunk)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._status = status

    def _end_the_rest(self) -> None:
        """When a container's first process ends, all others are killed. They are our children by now. First
        they may start no more: a process that starts another and ends is gone when it is killed."""
        if limit := self._spec.get("processes"):
            with contextlib.suppress(OSError), open(limit, "wb", 0) as file:
                file.write(b"0")
        for _ in range(100):
            pids = children_of(os.getpid())
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
            self._reap()

    def _conclude(self) -> None:
        self._log.close()
        status = self._status if self._status is not None else 0
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = 128 + number if number else os.WEXITSTATUS(status)
        reason = "OOMKilled" if number == signal.SIGKILL and self._ooms() > self._ooms_before else ""
        message = self._message()
        if not message and code and self._spec.get("fallback"):
            message = last_words(self._spec["log"])
        note, refused = self._memory_note(code, reason)
        reason = reason or refused
        self._record_exit(code, number, reason, "; ".join(part for part in (message, note) if part))

    def _memory_note(self, code: int, reason: str) -> tuple[str, str]:
        """How much memory it used of how much, if it failed for that; and the reason, if that is why. Without
        cgroups the kernel refuses memory instead of killing, so the program's last words have to tell."""
        limit = self._spec.get("memory_bytes") or 0
        if reason == "OOMKilled":
            return (f"memory peak {self._peak() or limit} of the limit {limit} bytes" if limit else ""), ""
        if not code or not (self._spec.get("rlimits") or {}).get("DATA"):
            return "", ""
        if not any(word in last_words(self._spec["log"]) for word in OUT_OF_MEMORY):
            return "", ""
        peak = _children_peak()
        note = f"memory was refused: memory peak {peak} of the limit {limit} bytes"
        return note, MEMORY_REFUSED if peak >= NEAR_LIMIT * limit else ""

    def _peak(self) -> int:
        try:
            with open(self._spec.get("peak") or "/nowhere", encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            return 0

    def _record_exit(self, code: int, number: int, reason: str, message: str) -> None:
        file = f"{self._directory}/exit.json"
        record = {
            **self._spec["record"],
            "started_ns": self._began_ns,
            "code": code,
            "signal": number,
            "reason": reason,
            "message": message,
            "finished_ns": time.time_ns(),
        }
        for _ in range(RECORD_TRIES):  # The disk is full: finished work must not be repeated.
            for form in (record, {**record, "message": ""}):  # The code is what counts.
                with contextlib.suppress(OSError):
                    write_whole(file, form)
                    return
            if not os.path.isdir(self._directory):
                return  # Its pod was removed.
            time.sleep(1.0)

    def _ooms(self) -> int:
        """How many processes the OOM killer has killed, including earlier runs."""
        try:
            with open(self._spec.get("oom") or "/nowhere", encoding="ascii") as file:
                fields = dict(line.split() for line in file if line.strip())
            return int(fields.get("oom_kill", "0"))
        except (OSError, ValueError):
            return 0

    def _message(self) -> str:
        """The termination message, from the plain file that the agent made; anything else there is not
        read."""
        try:
            fd = os.open(self._spec.get("message") or "/nowhere", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return ""
        with open(fd, "rb") as file:
            is_plain = stat.S_ISREG(os.fstat(fd).st_mode)
            return file.read(MESSAGE_BYTES_MAX).decode("utf-8", "replace") if is_plain else ""


def _children_peak() -> int:
    """The most memory that one process used, in bytes."""
    import resource  # noqa: PLC0415  # Rarely needed.

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise OSError(error.errno, f"workingDir: {error.strerror}", directory) from None


def _find_program(program: str, env: dict[str, str]) -> str:
    """Find the program in the container's PATH, with its rights: directories it may not enter are skipped."""
    if "/" in program:
        return program
    for directory in env.get("PATH", os.defpath).split(":"):
        path = f"{directory or '.'}/{program}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(2, "executable file not found in $PATH (or not accessible to its user)", program)


def _error_text(error: BaseException, spec: dict[str, Any]) -> str:
    if getattr(error, "refused", False):
        return str(getattr(error, "strerror", ""))
    if isinstance(error, OSError):
        return f"{error.strerror}: {error.filename or spec['argv'][0]}"
    return f"{type(error).__name__}: {error}"


def last_words(path: str) -> str:
    """The end of a log, for a container that left no other message."""
    tail = b"".join(_texts(path)[-FALLBACK_LINES:])
    return tail[-FALLBACK_BYTES:].decode("utf-8", "replace").rstrip("\n")


def _texts(path: str) -> list[bytes]:
    """Texts of the last lines, including the file that was just rotated."""
    raw = b""
    for name in (path, f"{path}.1"):
        with contextlib.suppress(OSError), open(name, "rb") as file:
            most = FALLBACK_BYTES + FALLBACK_LINES * HEAD_BYTES - len(raw)
            file.seek(max(0, file.seek(0, os.SEEK_END) - max(0, most)))
            raw = file.read() + raw
    parts = [line.split(b" ", 3) for line in raw.splitlines()]
    return [part[3] + b"\n" * (part[2] == b"F") for part in parts if len(part) == 4]


def children_of(parent: int) -> list[int]:
    children = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != b"Z":
            children.append(int(name))
    return children


class ContainerLog:
    """Lines as container runtimes write them: `TIME STREAM F text`, with P for a partial line. Full files get
    a number, .1 being the newest; the oldest is removed."""

    def __init__(self, path: str, bytes_max: int, files_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._file = self._open()  # Open as long as we run.
        self._size = self._file.tell()
        self._rest = {"stdout": b"", "stderr": b""}
        self._torn = False  # The file ends in the middle of a line: there was no room for the rest.

    def _open(self) -> FileIO:
        return open(self._path, "ab", buffering=0, opener=not_through_links)

    def write(self, stream: str, chunk: bytes) -> None:
        """An empty chunk is the stream's end."""
        lines = (self._rest[stream] + chunk).split(b"\n")
        rest = lines.pop()
        stamp = _stamp()
        out = [part for line in lines for part in self._parts(stamp, stream, line, b"F")]
        while len(rest) > LINE_BYTES_MAX:
            out.append(self._line(stamp, stream, b"P", rest[:LINE_BYTES_MAX]))
            rest = rest[LINE_BYTES_MAX:]
        if rest and not chunk:
            out.append(self._line(stamp, stream, b"F", rest))
            rest = b""
        self._rest[stream] = rest
        if out:
            self._put(b"".join(out))

    def close(self) -> None:
        for stream in self._rest:
            self.write(stream, b"")
        self._file.close()

    def _parts(self, stamp: bytes, stream: str, line: bytes, end: bytes) -> list[bytes]:
        parts = [line[at : at + LINE_BYTES_MAX] for at in range(0, len(line), LINE_BYTES_MAX)] or [b""]
        tags = [b"P"] * (len(parts) - 1) + [end]
        return [self._line(stamp, stream, tag, part) for tag, part in zip(tags, parts)]  # noqa: B905

    def _line(self, stamp: bytes, stream: str, tag: bytes, text: bytes) -> bytes:
        return b"%s %s %s %s\n" % (stamp, stream.encode(), tag, text)

    def _put(self, content: bytes) -> None:
        with contextlib.suppress(OSError):  # A full disk costs output, not the program.
            whole = b"\n" * self._torn + content
            written = self._file.write(whole) or 0
            self._torn = written < len(whole)
            self._size += written
            if self._size >= self._bytes_max:
                self._rotate()

    def _rotate(self) -> None:
        for number in range(self._files_max - 2, 0, -1):
            if os.path.exists(f"{self._path}.{number}"):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        os.replace(self._path, f"{self._path}.1")
        full, self._file = self._file, self._open()
        full.close()  # Not earlier: if the rename fails, we keep writing to it.
        self._size = 0


def _stamp() -> bytes:
    now = time.time_ns()
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1_000_000_000))
    return f"{second}.{now % 1_000_000_000:09d}Z".encode()


if __name__ == "__main__":
    main()
