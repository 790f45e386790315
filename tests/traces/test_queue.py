"""The queue and the exporter: a real collector, a collector that fails, one that hangs, none at all."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.record.entries import Lines
from tests.traces.records import POD_UID, Collector, collecting, decision, outcome, write

from fathom.model.decision import Decision, NoJournal, Outcome
from fathom.traces import queue as queue_module
from fathom.traces.opened import opened_traces, traced
from fathom.traces.queue import SpanQueue, TracedJournal
from fathom.traces.settings import TraceSettings, trace_settings
from fathom.traces.span import Span

ON = "OTEL_EXPORTER_OTLP_ENDPOINT"
PATIENCE_S = 30.0


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


class KeptSpans:
    """A sender that keeps what it is given, while `open` is set."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Span]] = []
        self.taking = True
        self.open = threading.Event()
        self.open.set()

    def send(self, spans: Sequence[tuple[str, Span]]) -> bool:
        assert self.open.wait(PATIENCE_S)
        self.spans += spans if self.taking else []
        return self.taking

    def shutdown(self) -> None: ...


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra `traces`")
    with collecting() as collector:
        monkeypatch.setenv(ON, collector.url)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=overruled")
        yield collector


def test_a_collector_receives_the_spans_of_each_part_under_its_name(collector: Collector) -> None:
    with opened_traces({ON: collector.url}, Lines()) as traces:
        assert traces is not None
        traces.of("api-server").add(write(traceparent=f"00-{'ab' * 16}-{'cd' * 8}-01"))
        scheduler = traced(NoJournal(), traces, "scheduler")
        scheduler.decided(decision())
        scheduler.concluded(outcome(result="conflict", message="no room"))
    assert traces.exported == len(collector.spans) == 4
    root, request, bound, written = collector.spans
    assert [span.service for span in collector.spans] == [
        "fathom-api-server", "fathom-api-server", "fathom-scheduler", "fathom-scheduler",
    ]  # fmt: skip
    assert {span.trace for span in collector.spans} == {POD_UID.replace("-", "")}
    assert (root.parent, bound.parent, written.parent) == ("", request.id, bound.id)
    assert root.links == [("ab" * 16, "cd" * 8)]
    assert written.error == "no room"
    assert bound.attributes["fathom.decision"] == "s-1"
    assert bound.attributes["fathom.queued_ms"] == 500.0
    assert bound.resource["deployment.environment"] == "test"
    assert (bound.start_ns, bound.end_ns) == (9_500_000_000, 10_000_000_000)


@pytest.mark.slow
def test_a_collector_that_refuses_is_counted_and_logged_once(collector: Collector) -> None:
    collector.status = 400
    log = Lines()
    with opened_traces({ON: collector.url}, log) as traces:
        assert traces is not None
        traces.of("scheduler").add(decision())
        until(lambda: traces.failed == 1)
        traces.of("scheduler").add(decision("s-2"))
        until(lambda: traces.failed == 2)
        collector.status = 200
        traces.of("scheduler").add(decision("s-3"))
        until(lambda: traces.exported == 1)
    assert [event for event, _ in log.lines] == [
        "the collector does not take spans", "spans are exported again",
    ]  # fmt: skip


@pytest.mark.slow
def test_without_a_collector_nothing_waits_and_nothing_fails() -> None:
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra `traces`")
    began_s = time.monotonic()
    with opened_traces({ON: "http://127.0.0.1:9"}, Lines()) as traces:
        assert traces is not None
        for number in range(100):
            traces.of("scheduler").add(decision(f"s-{number}"))
    assert traces.exported == 0
    assert time.monotonic() - began_s < PATIENCE_S


def test_a_full_queue_drops_records_and_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "RECORDS_MAX", 10)
    sender = KeptSpans()
    sender.open.clear()
    traces = SpanQueue(lambda: sender, Lines())
    for number in range(30):
        traces.add("scheduler", decision(f"s-{number}"))
    sender.open.set()
    traces.close()
    assert len(sender.spans) + traces.dropped == 30
    assert traces.dropped >= 10
    assert traces.exported == len(sender.spans)


def test_a_sender_that_cannot_be_made_is_logged_and_the_process_goes_on() -> None:
    def broken() -> KeptSpans:
        raise ValueError("no such compression")

    log = Lines()
    traces = SpanQueue(broken, log)
    traces.add("scheduler", decision())
    traces.close()
    assert [event for event, _ in log.lines] == ["traces have stopped"]


def test_the_journal_gets_every_record_first_and_is_itself_where_traces_are_off() -> None:
    kept: list[Decision | Outcome] = []

    class Kept(NoJournal):
        def decided(self, decision: Decision) -> None:
            kept.append(decision)

        def concluded(self, outcome: Outcome) -> None:
            kept.append(outcome)

    class Spans:
        def add(self, record: object) -> None:
            assert kept[-1] is record

    journal = Kept()
    assert traced(journal, None, "scheduler") is journal
    both = TracedJournal(journal, Spans())
    both.decided(decision())
    both.concluded(outcome())
    assert kept == [decision(), outcome()]


def test_a_share_of_the_traces_is_exported_the_same_by_every_process() -> None:
    def sampled() -> list[str]:
        sender = KeptSpans()
        traces = SpanQueue(lambda: sender, Lines(), ratio=0.25)
        for number in range(1000):
            uid = f"{number:08x}-4f89-41d3-9a0c-0305e82c3301"
            traces.add("api-server", write(uid=uid, name=f"web-{number}"))
        traces.close()
        return sorted({f"{span.trace:032x}" for _, span in sender.spans})

    chosen = sampled()
    assert chosen == sampled()
    assert 200 < len(chosen) < 300


@pytest.mark.parametrize(
    ("environ", "settings"),
    [
        ({}, None),
        ({ON: "http://c:4318"}, TraceSettings("http://c:4318")),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/v1"}, TraceSettings("http://t/v1")),
        ({ON: "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, None),
        ({ON: "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, None),
        ({ON: "http://c:4318", "OTEL_TRACES_SAMPLER": "always_off"}, None),
        (
            {ON: "http://c:4318", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
            TraceSettings("http://c:4318", 0.1),
        ),
        (
            {ON: "http://c:4318", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "all"},
            TraceSettings("http://c:4318", 1.0),
        ),
    ],
)
def test_the_standard_environment_says_whether_traces_are_on(
    environ: dict[str, str], settings: TraceSettings | None
) -> None:
    assert trace_settings(environ) == settings


@pytest.mark.live
def test_a_missing_extra_is_said_in_one_line_and_the_process_goes_on() -> None:
    program = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "from fathom.seams.log import JsonLog\n"
        "from fathom.seams.outside import live\n"
        "from fathom.traces.opened import open_traces\n"
        f"assert open_traces({{'{ON}': 'http://c:4318'}}, JsonLog(sys.stderr, live().clock)) is None"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    [line] = ended.stderr.splitlines()
    assert json.loads(line)["warning"] == (
        "spans are not sent to http://c:4318: traces need OpenTelemetry: pip install 'fathom-control[otel]'"
    )


@pytest.mark.live
@pytest.mark.parametrize(
    ("prepare", "url", "line"),
    [
        (
            "sys.modules['opentelemetry'] = None",
            "http://127.0.0.1:4318",
            "fathom: error: --traces: traces need OpenTelemetry: pip install 'fathom-control[otel]'",
        ),
        (
            "pass",
            "127.0.0.1:4318",
            "fathom: error: --traces must be the URL of a collector, http://HOST:4318, not '127.0.0.1:4318'",
        ),
    ],
    ids=["extra-missing", "no-url"],
)
def test_up_says_in_one_line_why_it_cannot_send_traces(
    tmp_path: Path, prepare: str, url: str, line: str
) -> None:
    program = f"import sys\n{prepare}\nfrom fathom.cli.entry import main\nmain()"
    command = [sys.executable, "-c", program, "up", "--data", str(tmp_path / "data"), "--traces", url]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr.splitlines()) == (2, [line])
    assert not (tmp_path / "data").exists()


@pytest.mark.live
def test_no_process_imports_opentelemetry_while_traces_are_off() -> None:
    commands = ", ".join(f"fathom.cli.cluster.{name}" for name in ("up", "deciders", "gateway"))
    modules = f"fathom.serve, fathom.agent.live, {commands}"
    program = (
        f"import sys, {modules}\n"
        "from fathom.traces.opened import open_traces\n"
        "assert open_traces({}, None) is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
