"""Images are names of local commands here: a TOML table maps them.

    "nginx" = ["python3", "-m", "http.server", "--bind", "$(POD_IP)", "80"]
    "registry.example/app:*" = { command = ["./app"], env = { MODE = "local" }, workingDir = "/srv/app" }

A container with a `command` runs that, whatever its image is called. The same holds for `args` alone when the
image is not in the table: many images (busybox, debian, python) have no entrypoint.
"""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from fathom.model.objects import Obj


class BadImages(Exception):
    """The file cannot be used; the message is one line."""


class Image(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    command: tuple[str, ...]
    env: dict[str, str] = {}
    working_dir: str = ""


Images = dict[str, Image]


def read_images(path: Path) -> Images:
    try:
        table = tomllib.loads(path.read_text())
        return {name: _image(entry) for name, entry in table.items()}
    except OSError as error:
        raise BadImages(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise BadImages(f"{path}: {error}; an image is a list of words, or a table with a command") from None


def _image(entry: Any) -> Image:
    image = msgspec.convert({"command": entry} if isinstance(entry, list) else entry, Image)
    if not image.command:
        raise msgspec.ValidationError("a command must have at least one word")
    return image


class ImagesFile:
    """The table, read again when its file has changed: adding an image needs no restart. A file that cannot
    be used changes nothing, and `problem` says why."""

    def __init__(self, path: Path | None = None) -> None:
        """Raises BadImages."""
        self._path = path
        self._stamp = _stamp(path)
        self._images: Images = {} if path is None else read_images(path)
        self.problem = ""

    def now(self) -> Images:
        stamp = _stamp(self._path)
        if self._path is not None and stamp != self._stamp:
            self._stamp, self.problem = stamp, ""
            try:
                self._images = read_images(self._path)
            except BadImages as error:
                self.problem = str(error)
        return self._images


def _stamp(path: Path | None) -> tuple[int, int]:
    try:
        stat = path.stat() if path is not None else None
    except OSError:
        stat = None
    return (stat.st_mtime_ns, stat.st_size) if stat is not None else (0, 0)


def find_image(images: Images, name: str) -> Image | None:
    """Find an image by its whole name, without its tag, by its last part, or by a pattern, in this order."""
    bare = name.partition("@")[0]
    untagged = bare.rpartition(":")[0] if ":" in bare.rpartition("/")[2] else bare
    for spelled in (name, bare, untagged, untagged.rpartition("/")[2]):
        if spelled in images:
            return images[spelled]
    return next((image for pattern, image in images.items() if fnmatch.fnmatchcase(name, pattern)), None)


def argv_of(container: Obj, images: Images) -> tuple[list[str], Image | None] | str:
    """The command line to run, and the image's entry; or a message why there is none."""
    image = find_image(images, str(container.get("image") or ""))
    args = [str(word) for word in container.get("args") or ()]
    if container.get("command"):
        return [*map(str, container["command"]), *args], image
    if image is None and args and not args[0].startswith("-"):
        return args, None
    if image is None:
        return (
            f'no local command for image "{container.get("image", "")}": give the container a command, or '
            "map the image to one in the agent's --images file"
        )
    # As with an entrypoint: the container's args, if any, replace what follows the program.
    return ([image.command[0], *args] if args else list(image.command)), image
