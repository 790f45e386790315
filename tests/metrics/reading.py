"""Metrics as Prometheus takes them: parsed by its own client library, and checked where that is lenient."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = re.compile(r"[a-z][a-z0-9_]*")
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def strictly(text: str) -> dict[str, Metric]:
    """Families by the name that stands in their TYPE line. Raises AssertionError."""
    assert text.endswith("\n")
    families = list(text_string_to_metric_families(text))
    found = {f"{one.name}_total" if one.type == "counter" else one.name: one for one in families}
    declared = re.findall(r"^# TYPE (\S+) ", text, re.M)
    assert declared == list(found), "a family is told in two places, or without its type"
    assert re.findall(r"^# HELP (\S+) \S", text, re.M) == declared, "a family without help"
    for family in families:
        _check(family)
    return found


def _check(family: Metric) -> None:
    assert NAME.fullmatch(family.name), family.name
    allowed = {f"{family.name}{suffix}" for suffix in SUFFIXES[family.type]}
    assert {sample.name for sample in family.samples} <= allowed, family
    series = [(sample.name, *sorted(sample.labels.items())) for sample in family.samples]
    assert len(series) == len(set(series)), f"{family.name} tells a series twice"
    if family.type != "gauge":
        assert all(sample.value >= 0 for sample in family.samples), family
    if family.type == "histogram":
        _check_buckets(family)


def _check_buckets(family: Metric) -> None:
    """Each counts what the one before counts, and the last one all."""
    buckets: dict[tuple[Any, ...], list[float]] = {}
    counts = {}
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        if sample.name.endswith("_bucket"):
            buckets.setdefault(labels, []).append(sample.value)
        elif sample.name.endswith("_count"):
            counts[labels] = sample.value
    for labels, values in buckets.items():
        assert values == sorted(values), f"{family.name}{labels} goes down"
        assert values[-1] == counts[labels], f"{family.name}{labels} does not add up"


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    """The sum of the series that have these labels."""
    samples = families[name].samples
    return sum(one.value for one in samples if labels.items() <= one.labels.items())


def expressions() -> dict[str, str]:
    """Of the alert rules and of the dashboard, by where they stand."""
    rules = yaml.safe_load((DEPLOY / "fathom-rules.yaml").read_text())
    found = {rule["alert"]: rule["expr"] for group in rules["groups"] for rule in group["rules"]}
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    for panel in board["panels"]:
        found |= {f"{panel['title']} {one['refId']}": one["expr"] for one in panel["targets"]}
    return found


def metrics_of(expression: str) -> set[str]:
    """The names of metrics in a PromQL expression."""
    text = re.sub(r'"[^"]*"', "", expression)
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring)\s*\([^)]*\)", " ", text)
    words = re.findall(r"\b([a-zA-Z_:][a-zA-Z0-9_:]*)\b(?!\s*\()", text)
    return set(words) - {"and", "or", "unless", "by", "without", "sum", "max", "min"}


def labels_of(expression: str) -> dict[str, set[str]]:
    """By metric: the labels that its selectors name."""
    found: dict[str, set[str]] = {}
    for name, selector in re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}", expression):
        found.setdefault(name, set()).update(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', selector))
    return found


def family_of(metric: str) -> str:
    return re.sub(r"_(bucket|sum|count)$", "", metric)
