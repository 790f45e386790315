"""The versions that a run was made with; a replay with others reports the differences."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

import fathom

# Dependencies whose behaviour can affect a decision or the bytes of an object.
DEPENDENCIES = ("immutables", "jsonschema-rs", "kubernetes-validate", "msgspec", "numpy", "pyyaml")


class Versions(msgspec.Struct, frozen=True):
    fathom: str
    code: str  # A digest of fathom's own source: between releases the version says little.
    python: str  # Major and minor: patch releases change no behaviour.
    dependencies: dict[str, str]


@cache
def versions() -> Versions:
    """As of the first call: loaded code stays the same, even if the files change."""
    return Versions(
        fathom=fathom.__version__,
        code=_digest(Path(fathom.__file__).parent),
        python=".".join(platform.python_version_tuple()[:2]),
        dependencies={name: _installed(name) for name in DEPENDENCIES},
    )


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _digest(folder: Path) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"{file.relative_to(folder)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def differences(then: Versions, now: Versions) -> list[str]:
    """In words, for a person who replays a run that was made elsewhere."""
    changes = []
    if then.fathom != now.fathom:
        changes.append(f"recorded with fathom {then.fathom}, this is {now.fathom}")
    elif then.code != now.code:
        changes.append(f"fathom's code has changed since this was recorded ({then.code}, now {now.code})")
    if then.python != now.python:
        changes.append(f"recorded with Python {then.python}, this is {now.python}")
    for name, was in then.dependencies.items():
        current = now.dependencies.get(name, "none")
        if was != current:
            changes.append(f"recorded with {name} {was}, here is {current}")
    return changes
