"""The completion indexes of a Job: the index of a pod, and index lists in Kubernetes' format. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.objects import Obj, lookup, metadata

INDEX = "batch.kubernetes.io/job-completion-index"


def is_indexed(job: Obj) -> bool:
    return bool(lookup(job, "spec", "completionMode") == "Indexed")


def number_of(pod: Obj, annotation: str) -> int | None:
    text = str((metadata(pod).get("annotations") or {}).get(annotation, ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def index_of(pod: Obj) -> int | None:
    return number_of(pod, INDEX)


def parse_indexes(text: str) -> list[int]:
    """'0,2-4' is 0, 2, 3 and 4."""
    indexes: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first.isascii() and first.isdigit() and (not dash or last.isdigit()):
            indexes += range(int(first), int(last if dash else first) + 1)
    return indexes


def shown_indexes(indexes: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(_run(first, last) for first, last in runs)


def _run(first: int, last: int) -> str:
    """As Kubernetes writes it: two indexes are not a range."""
    if first == last:
        return str(first)
    return f"{first}{',' if last == first + 1 else '-'}{last}"
