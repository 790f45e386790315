"""The registry of a process: collectors called at each scrape of `/metrics`, and Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fathom.metrics.families import Family, Labels, Sample, merged

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Collect = Callable[[], Iterable[Family]]


class Registry:
    """The collectors of one process. Parts of it may restart (see `record/recorded_process.py`): a new
    collector replaces the earlier one of the same name."""

    enabled = True

    def __init__(self) -> None:
        self._collectors: dict[str, Collect] = {}

    def register(self, name: str, collect: Collect) -> None:
        self._collectors[name] = collect

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
