"""A socket in a run's directory, for the shim and the keeper of a container.

Imports nothing of fathom: the shim finds it beside itself, without the package.
"""

from __future__ import annotations

import _socket
import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # Importing `typing` would take as long as all the rest.
    from typing import Any


def listening(directory: str, name: str, waiting_max: int) -> Any:
    """Made while the directory can still be reached. Its path may be longer than a socket's may be, so it is
    named by the directory's descriptor."""
    directory_fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    before = os.umask(0o177)
    try:
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        listener.bind(f"/proc/self/fd/{directory_fd}/{name}")
        listener.listen(waiting_max)
        return listener
    finally:
        os.umask(before)
        os.close(directory_fd)
