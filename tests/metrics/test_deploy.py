"""The files of deploy/ say what Prometheus and Grafana understand. That what they name exists is tested on a
live cluster: tests/cluster/test_metrics_live.py."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.metrics.reading import DEPLOY, expressions, family_of, labels_of, metrics_of, strictly

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: it comes with Prometheus, prometheus.io/download"
)


@needs_promtool
@pytest.mark.parametrize(
    "words",
    [("check", "rules", "fathom-rules.yaml"), ("check", "config", "--syntax-only", "prometheus.yaml")],
)
def test_promtool_finds_nothing_wrong(words: tuple[str, ...]) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *words], cwd=DEPLOY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('sum by (le, verb) (rate(a_bucket{job=~"b|c"}[5m]))', {"a_bucket"}),
        ("max(a) - min(b_total) > 3 or increase(c_total[15m]) > 0", {"a", "b_total", "c_total"}),
        (
            "histogram_quantile(0.99, sum by (le) (rate(took_seconds_bucket[10m]))) > 30",
            {"took_seconds_bucket"},
        ),
    ],
)
def test_the_names_of_metrics_are_found_in_an_expression(expression: str, names: set[str]) -> None:
    assert metrics_of(expression) == names


def test_the_labels_of_a_selector_are_found() -> None:
    assert labels_of('sum by (x) (a{queue="b",reason!~"c|d"}) / b') == {"a": {"queue", "reason"}}
    assert family_of("took_seconds_bucket") == "took_seconds"


@pytest.mark.parametrize(
    "text",
    [
        "# HELP a A.\n# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# HELP a A.\n# TYPE a gauge\na 2\n",
        '# HELP a A.\n# TYPE a gauge\na{x="1"} 1\na{x="1"} 2\n',
        '# HELP a A.\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
        "# HELP a_total A.\n# TYPE a_total counter\na_total -1\n",
        "# TYPE a gauge\na 1\n",
    ],
)
def test_the_strict_reader_takes_no_page_that_contradicts_itself(text: str) -> None:
    with pytest.raises(AssertionError):
        strictly(text)


def test_every_alert_says_what_it_means_and_every_panel_has_a_place() -> None:
    rules = yaml.safe_load((DEPLOY / "fathom-rules.yaml").read_text())["groups"][0]["rules"]
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)
    assert len({rule["alert"] for rule in rules}) == len(rules)
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(panels)
    assert len(expressions()) > 40


def test_the_scrape_example_names_the_rules_and_the_account_beside_it() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())
    assert [Path(DEPLOY, name).is_file() for name in config["rule_files"]] == [True]
    assert {job["job_name"] for job in config["scrape_configs"]} == {
        "fathom-apiserver",
        "fathom-processes",
        "fathom-agents",
    }
    assert all(job["scheme"] == "https" for job in config["scrape_configs"])
