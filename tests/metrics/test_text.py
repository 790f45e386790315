"""What we write is what Prometheus reads: checked with the parser of its own client library."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fathom.metrics.families import Family, counter, counters, gauge
from fathom.metrics.numbers import OTHER, Durations, LabeledCounts
from fathom.metrics.process import process_metrics
from fathom.metrics.registry import NoRegistry, Part, Registry

Read = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(registry: Registry) -> Read:
    """Every sample, by its name and its labels."""
    text = registry.exposition().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counters_and_gauges_are_read_back_as_they_were() -> None:
    registry = Registry()
    registry.register("a", lambda: (counter("pods_total", "Pods.", 3), gauge("age_seconds", "Age.", 0.25)))
    assert read(registry) == {("pods_total", ()): 3.0, ("age_seconds", ()): 0.25}


@pytest.mark.parametrize(
    "value", ['say "no"', "back\\slash", "two\nlines", "ein Schlüssel", "", "half \ud800"]
)
def test_label_values_may_hold_any_text(value: str) -> None:
    registry = Registry()
    registry.register("a", lambda: (gauge("x", 'Of "all" \\ and\nmore.', 1, {"reason": value}),))
    shown = value.encode("utf-8", "replace").decode()
    assert read(registry) == {("x", (("reason", shown),)): 1.0}


@pytest.mark.parametrize(("value", "text"), [(float("inf"), "+Inf"), (float("-inf"), "-Inf"), (7, "7.0")])
def test_numbers_are_written_as_the_format_wants_them(value: float, text: str) -> None:
    registry = Registry()
    registry.register("a", lambda: (gauge("x", "X.", value),))
    assert registry.exposition().decode().splitlines()[-1] == f"x {text}"


def test_a_histogram_counts_what_took_at_most_as_long_as_each_bound() -> None:
    durations = Durations((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        durations.observe(seconds)
    registry = Registry()
    registry.register("a", lambda: (Family("took_seconds", "histogram", "T.").add_durations(durations),))
    assert read(registry) == {
        ("took_seconds_bucket", (("le", "0.1"),)): 2.0,
        ("took_seconds_bucket", (("le", "1.0"),)): 3.0,
        ("took_seconds_bucket", (("le", "+Inf"),)): 4.0,
        ("took_seconds_sum", ()): 7.65,
        ("took_seconds_count", ()): 4.0,
    }


def cached(part: Part) -> tuple[Family, ...]:
    return (gauge("cached", "C.", 1, part.labels),)


def incarnation(number: int) -> tuple[Family, ...]:
    return (gauge("x", "X.", number),)


def test_parts_that_share_a_family_are_told_together() -> None:
    registry = Registry()
    for component in ("scheduler", "controllers"):
        part = registry.part(component)
        part.register("caches", partial(cached, part))
    text = registry.exposition().decode()
    assert text.count("# TYPE cached gauge\n") == 1
    assert read(registry) == {
        ("cached", (("component", "scheduler"),)): 1.0,
        ("cached", (("component", "controllers"),)): 1.0,
    }


def test_a_part_that_begins_anew_takes_its_own_place() -> None:
    registry = Registry()
    for number in (1, 2):
        registry.part("scheduler").register("x", partial(incarnation, number))
    assert read(registry) == {("x", ()): 2.0}


def test_one_name_with_two_types_is_a_mistake() -> None:
    registry = Registry()
    registry.register("a", lambda: (gauge("x_total", "X.", 1), counter("x_total", "X.", 1)))
    with pytest.raises(ValueError, match="x_total is a gauge and a counter"):
        registry.exposition()


def test_a_counter_that_is_not_named_as_one_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="must end with _total"):
        counter("pods", "Pods.", 1)


def test_the_number_of_series_is_bounded_whatever_is_counted() -> None:
    counts = LabeledCounts("reason", "code", series_max=2)
    for number in range(5):
        counts.add(f"made-up-{number}", "500")
    counts.add("made-up-0", "500", by=10)
    found = counters("failures_total", "F.", counts).samples
    assert [(labels["reason"], value) for _, labels, value in found] == [
        ("made-up-0", 11), ("made-up-1", 1), (OTHER, 3),
    ]  # fmt: skip


def test_where_nobody_looks_nothing_is_kept() -> None:
    registry = NoRegistry()
    registry.part("scheduler").register("x", lambda: (gauge("x", "X.", 1),))
    assert not registry.part("scheduler").enabled
    assert registry.exposition() == b""


def test_a_process_is_measured_under_the_usual_names() -> None:
    registry = Registry()
    registry.register("process", process_metrics(restarts=2, version="1.2"))
    found = {name: value for (name, _), value in read(registry).items()}
    assert found["fathom_process_restarts_total"] == 2
    assert found["process_resident_memory_bytes"] > 1 << 20
    assert found["process_open_fds"] == pytest.approx(len(list(Path("/proc/self/fd").iterdir())), abs=2)
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_start_time_seconds"] > 1e9
