"""Refuse a container the system calls by which it could reach processes and keys outside of it.

Landlock keeps signals and tracing in, but not these. Without root, a pod has the user of the agent, so the
kernel would let it set the limits of the agent's process (`prlimit`): with no files and no CPU time left,
that process ends. Keys of the kernel's keyrings belong to a user, or come from the session that the agent was
started in.

Plain Python without packages, as the shim that calls it. Failures raise.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # Importing `typing` would take as long as all the rest.
    from collections.abc import Iterator

PR_SET_SECCOMP, FILTER = 22, 2
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # BPF
ALLOW, REFUSE = 0x7FFF0000, 0x00050000  # The lower half of the second is the error's number.
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # Offsets in `seccomp_data`; little-endian.
X32 = 0x40000000  # Numbers from here on are another table of x86_64, which nothing uses.

# By the kernel's architecture: numbers of prlimit64, and of add_key, request_key, keyctl.
I386 = (0x40000003, 340, (286, 287, 288))
X86_64 = (0xC000003E, 302, (248, 249, 250))
ARM = (0x40000028, 369, (309, 310, 311))
AARCH64 = (0xC00000B7, 261, (217, 218, 219))
TABLES = {"x86_64": (X86_64, I386), "aarch64": (AARCH64, ARM)}


def refuse_calls(machine: str = "") -> bool:
    """For this process and all that it starts; needs `no_new_privs`. False: we do not know the numbers of
    this machine's calls, and nothing is refused."""
    tables = TABLES.get(machine or os.uname().machine)
    if tables is None:
        return False
    code = b"".join(_program(tables))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.c_char_p(program), 0, 0) != 0:
        number = ctypes.get_errno()
        if number != errno.EINVAL:  # The kernel has no filters.
            raise OSError(number, f"seccomp: {os.strerror(number)}")
        return False
    return True


def _program(tables: tuple[tuple[int, int, tuple[int, ...]], ...]) -> Iterator[bytes]:
    yield _step(LOAD, ARCHITECTURE)
    for architecture, limits, keys in tables:
        block = b"".join(_refusals(limits, keys))
        yield _step(EQUAL, architecture, no=len(block) // 8)
        yield block
    yield _step(RETURN, REFUSE | errno.ENOSYS)  # A program for some other architecture.


def _refusals(limits: int, keys: tuple[int, ...]) -> Iterator[bytes]:
    yield _step(LOAD, NUMBER)
    yield _step(AT_LEAST, X32, no=1)
    yield _step(RETURN, REFUSE | errno.ENOSYS)
    for number in keys:
        yield _step(EQUAL, number, no=1)
        yield _step(RETURN, REFUSE | errno.EPERM)
    yield _step(EQUAL, limits, no=3)
    yield _step(LOAD, FIRST_ARGUMENT)
    yield _step(EQUAL, 0, yes=1)  # Whose limits: 0 is the caller itself.
    yield _step(RETURN, REFUSE | errno.EPERM)
    yield _step(RETURN, ALLOW)


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """One instruction; `yes` and `no`: how many to skip."""
    return struct.pack("=HBBI", code, yes, no, value)
