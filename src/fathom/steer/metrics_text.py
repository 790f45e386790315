"""Reads samples of one metric from Prometheus' text format. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from fathom.model.objects import Obj

_SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+\S+)?")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
_ESCAPE = re.compile(r"\\[\\\"n]")


def samples(page: str, name: str, wanted: Mapping[str, str]) -> list[Obj]:
    """`{labels, value}` of each sample that has the labels. What is no number is left out."""
    matching: list[Obj] = []
    for line in page.splitlines():
        if not line.startswith(name):
            continue
        match = _SAMPLE.fullmatch(line.strip())
        if match is None or match["name"] != name:
            continue
        labels = {label: _plain(value) for label, value in _LABEL.findall(match["labels"] or "")}
        value = _number(match["value"])
        if value is not None and all(labels.get(label) == text for label, text in wanted.items()):
            matching.append({"labels": labels, "value": value})
    return matching


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES[match.group()], text)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value
