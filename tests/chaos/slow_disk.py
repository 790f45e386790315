"""Runs a program whose disk is slow on demand: every fsync and fdatasync of it returns only after a delay.

    python slow_disk.py DELAY_FILE PROGRAM ARGUMENT…

DELAY_FILE has the delay in seconds, and may change at any time; calls that are waiting notice. A line is
added to DELAY_FILE.held for each call that has to wait. The kernel asks us about these system calls (seccomp
user notifications), so the program needs no library and no FUSE.

What it cannot show: a disk that loses what was fsynced, or writes it in another order.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

# Machine -> numbers of the system calls seccomp, fsync and fdatasync.
CALLS = {"x86_64": (317, 74, 75), "aarch64": (277, 82, 83)}

SET_NO_NEW_PRIVILEGES = 38  # Of prctl.
SET_MODE_FILTER, NEW_LISTENER = 1, 1 << 3
NOTIFY, ALLOW = 0x7FC00000, 0x7FFF0000
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NOTIFICATION_BYTES, ANSWER = 80, "QqiI"  # struct seccomp_notif begins with its id; struct seccomp_notif_resp
RECEIVE, SEND = 0xC0502100, 0xC0182101
CONTINUE = 1  # Let the kernel carry out the call.
LOOK_S = 0.01


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def is_possible() -> bool:
    """Whether a program can be run so: the kernel has it since 5.5, and containers may forbid it."""
    if sys.platform != "linux" or platform.machine() not in CALLS:
        return False
    command = [sys.executable, __file__, os.devnull, sys.executable, "-c", ""]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def listener() -> int:
    """From here on, this process and what it becomes is asked about. Raises OSError."""
    seccomp, *asked = CALLS[platform.machine()]
    steps = [
        (LOAD, 0, 0, 0),
        (JUMP_IF_EQUAL, 2, 0, asked[0]),
        (JUMP_IF_EQUAL, 1, 0, asked[1]),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, NOTIFY),
    ]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    made = Filter(len(steps), code)
    file = libc.syscall(seccomp, SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(made))
    if file < 0:
        raise OSError(ctypes.get_errno(), "seccomp refuses the filter")
    return int(file)


class Held:
    """Answers the kernel until the program has ended."""

    def __init__(self, file: int, delay: Path) -> None:
        self._file, self._delay = file, delay

    def answer_all(self) -> None:
        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
            asked = bytearray(NOTIFICATION_BYTES)
            try:
                fcntl.ioctl(self._file, RECEIVE, asked)
            except OSError:  # The caller was killed meanwhile.
                continue
            (number,) = struct.unpack_from("Q", asked)
            if self._delay_s() > 0:
                threading.Thread(target=self._hold, args=(number,), daemon=True).start()
            else:
                self._answer(number)

    def _hold(self, number: int) -> None:
        with self._delay.with_suffix(".held").open("a") as held:
            held.write(f"{number}\n")
        since_s = time.monotonic()
        while time.monotonic() < since_s + self._delay_s():
            time.sleep(LOOK_S)
        self._answer(number)

    def _answer(self, number: int) -> None:
        try:
            fcntl.ioctl(self._file, SEND, struct.pack(ANSWER, number, 0, 0, CONTINUE))
        except OSError:  # As above.
            return

    def _delay_s(self) -> float:
        try:
            return float(self._delay.read_text() or 0)
        except OSError:
            return 0.0


def main(delay: Path, program: list[str]) -> None:
    here, there = socket.socketpair()
    if os.fork() == 0:  # Before the filter: what answers is not asked about.
        here.close()
        _, files, _, _ = socket.recv_fds(there, 1, 1)
        Held(files[0], delay).answer_all()
        os._exit(0)
    there.close()
    file = listener()
    socket.send_fds(here, [b"."], [file])
    os.close(file)
    here.close()
    os.execv(program[0], program)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
