"""A small disk of its own for a directory, which can be full: a tmpfs. Mounting needs root."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path


class SmallDisk:
    """Mounted until `unmount`. Raises OSError where it cannot be mounted."""

    def __init__(self, directory: Path, size: str) -> None:
        directory.mkdir(parents=True, mode=0o700, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(directory)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"a small disk cannot be mounted: {done.stderr.strip()}")
        self._directory = directory
        self._filler: Path | None = None

    def fill(self) -> None:
        """Whoever else writes to it meanwhile."""
        self._filler = self._directory / "filler"
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        if self._filler is not None:
            self._filler.unlink()
            self._filler = None

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self._directory)], check=True)
