"""The registry of a process: what it can be asked for. Collectors called at each scrape of `/metrics`, in
Prometheus' text format; functions that describe the state of its parts; where its decision journals are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fathom.metrics.families import Family, Labels, Sample, merged

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Collect = Callable[[], Iterable[Family]]
# Called with UIDs of objects that the question is about; returns plain data.
Describe = Callable[[tuple[str, ...]], Mapping[str, Any]]


class Registry:
    """The collectors of one process. Parts of it may restart (see `record/recorded_process.py`): a new
    collector replaces the earlier one of the same name."""

    enabled = True

    def __init__(self) -> None:
        self._collectors: dict[str, Collect] = {}
        self._descriptions: dict[str, dict[str, Describe]] = {}  # Component -> name -> function.
        self.journals: dict[str, Path] = {}  # By component.
        self.tapes: dict[str, Path] = {}  # By component.

    def register(self, name: str, collect: Collect) -> None:
        self._collectors[name] = collect

    def describe(self, component: str, name: str, describe: Describe) -> None:
        self._descriptions.setdefault(component, {})[name] = describe

    def keep_journal(self, component: str, directory: Path) -> None:
        self.journals[component] = directory

    def keep_tape(self, component: str, directory: Path) -> None:
        self.tapes[component] = directory

    def states(self, about: tuple[str, ...]) -> dict[str, dict[str, Any]]:
        """Component -> name -> what the part says about itself. Call it on the process's own loop."""
        return {
            component: {name: dict(describe(about)) for name, describe in described.items()}
            for component, described in self._descriptions.items()
        }

    def part(self, component: str) -> Part:
        """For one part of the process: its families carry the label `component`."""
        return Part(self, component)

    def exposition(self) -> bytes:
        """Prometheus' text format."""
        families = [family for collect in tuple(self._collectors.values()) for family in collect()]
        return "".join(map(text_of, merged(families))).encode()


class NoRegistry(Registry):
    """Where metrics are not read: in a simulated world, and in a replay."""

    enabled = False

    def register(self, name: str, collect: Collect) -> None: ...

    def describe(self, component: str, name: str, describe: Describe) -> None: ...

    def keep_journal(self, component: str, directory: Path) -> None: ...

    def keep_tape(self, component: str, directory: Path) -> None: ...


class Part:
    """A registry as one part of a process sees it."""

    def __init__(self, registry: Registry, component: str) -> None:
        self._registry = registry
        self.component = component

    @property
    def enabled(self) -> bool:
        """Whether metrics are read at all; if not, do not count."""
        return self._registry.enabled

    @property
    def labels(self) -> dict[str, str]:
        return {"component": self.component}

    def register(self, name: str, collect: Collect) -> None:
        self._registry.register(f"{self.component}/{name}", collect)

    def describe(self, name: str, describe: Describe) -> None:
        """Say what this part can tell about its state, when it is asked."""
        self._registry.describe(self.component, name, describe)

    def keep_journal(self, directory: Path) -> None:
        """Say where this part's decision journal is."""
        self._registry.keep_journal(self.component, directory)

    def keep_tape(self, directory: Path) -> None:
        """Say where this part's tape is."""
        self._registry.keep_tape(self.component, directory)


NOT_MEASURED = NoRegistry().part("")


def text_of(family: Family) -> str:
    lines = [
        f"# HELP {family.name} {_escaped(family.help)}\n",
        f"# TYPE {family.name} {family.kind}\n",
    ]
    return "".join((*lines, *(_line(family.name, sample) for sample in family.samples)))


def _line(name: str, sample: Sample) -> str:
    suffix, labels, value = sample
    return f"{name}{suffix}{_labels(labels)} {_number(value)}\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in sorted(labels.items())) + "}"


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def _escaped(text: str) -> str:
    # A character in a client's name that UTF-8 cannot encode must not break the whole page.
    plain = text.encode("utf-8", "replace").decode()
    return plain.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    number = float(value)
    if number != number:  # noqa: PLR0124  # The one number that is not itself.
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "+Inf" if number > 0 else "-Inf"
    return repr(number)
