"""What every answer has in common, and what is written down about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.harness import Api, config_map, tell

from fathom.api.metrics import SERIES_MAX
from fathom.api.server import trace_id
from fathom.record.audit_reading import read_entries

MAPS = "/api/v1/namespaces/default/configmaps"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_trace_id_is_taken_from_a_well_formed_header_only() -> None:
    assert trace_id(f"00-{TRACE}-00f067aa0ba902b7-01") == TRACE
    assert [trace_id(text) for text in ("", "00", f"00-{TRACE[:-1]}-x-01", f"00-{'0' * 32}-x-01")] == [""] * 4


def test_a_write_is_audited_with_its_request_and_trace(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "user-agent": "me"}
        answer = await api.post(MAPS, config_map("a"), headers=headers)
        api.audit.flush()
        (entry,) = (entry for entry in read_entries(tmp_path / "audit") if entry.name == "a")
        assert (entry.user, entry.verb, entry.code, entry.trace) == ("admin", "create", 201, TRACE)
        assert (entry.request, entry.user_agent) == (answer.headers["audit-id"], "me")
        assert str(entry.revision) == answer.obj["metadata"]["resourceVersion"]

    tell(story, tmp_path)


def test_a_refused_write_is_audited_too(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("A_B"))
        api.audit.flush()
        codes = [entry.code for entry in read_entries(tmp_path / "audit", resource="configmaps")]
        assert codes == [422]

    tell(story, tmp_path)


@pytest.mark.slow
def test_metrics_are_bounded_whatever_is_asked(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for number in range(SERIES_MAX + 50):
            await api.get(f"/apis/made.up/v1/things{number}")
        text = (await api.get("/metrics")).obj.decode()
        assert text.count("\napiserver_request_total{") <= SERIES_MAX + 1
        assert 'verb="other"' in text

    tell(story, tmp_path)


def test_health_says_which_check_failed(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        assert (await api.get("/readyz?verbose")).obj.endswith(b"readyz check passed\n")
        assert (await api.get("/readyz/store")).obj == b"ok"
        api.core.draining = True
        failing = await api.get("/readyz")
        assert (failing.status, b"[-]shutdown failed" in failing.obj) == (500, True)
        assert (await api.get("/livez")).status == 200
        assert (await api.get(MAPS)).status == 200

    tell(story, tmp_path)


def test_what_nobody_expected_is_a_500_with_an_id_and_no_stack(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        api.core.decoder.decode = None  # Something that cannot be.
        answer = await api.post(MAPS, config_map("a"))
        assert (answer.status, answer.reason) == (500, "InternalError")
        assert answer.headers["audit-id"] in answer.obj["message"]
        assert "Traceback" not in str(answer.obj)

    tell(story, tmp_path)
