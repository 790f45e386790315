"""Spans of the driver's calls for a pod. They are made on the host's side of the seam, with the host's clock:
the agent does not know of them, and a replay of its tape has none."""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.agent.runtime import ContainerNotStarted, Launch, ProbeResult
from fathom.agent.runtime_client import Probing
from fathom.model.objects import Obj, metadata, uid_of
from fathom.model.traced import SpanSink, TracedRuntimeCall
from fathom.seams.outside import Clock

HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
FAILED = 500


class TracedCalls:
    def __init__(self, spans: SpanSink, node: str, clock: Clock) -> None:
        self._spans = spans
        self._node = node
        self._clock = clock

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def called(self, call: str, body: bytes, status: int, answer: Any, began_ns: int) -> None:
        """`answer`: of the driver; after an error (status 500) its text."""
        fields = _fields_of(call, body, answer)
        if fields is None:
            return
        refusal = fields.pop("error", "")
        error = str(answer) if status >= FAILED else refusal
        times: dict[str, Any] = {"began_ns": began_ns, "ended_ns": self._clock.now_ns()}
        self._spans.add(TracedRuntimeCall(node=self._node, error=error, **times, **fields))


def _fields_of(call: str, body: bytes, answer: Any) -> dict[str, Any] | None:
    """None: a call that has no span."""
    match call:
        case "admit":
            return {"call": call, **_pod_fields(msgspec.json.decode(body, type=Obj))}
        case "start":
            launch = msgspec.json.decode(body, type=Launch)
            refusal = f"{answer.reason}: {answer.message}" if isinstance(answer, ContainerNotStarted) else ""
            container = {"container": launch.container, "attempt": launch.attempt}
            return {"call": call, "error": refusal, **container, **_pod_fields(launch.pod)}
        case "probe":
            return _probe_fields(msgspec.json.decode(body, type=Probing), answer)
    return None


def _pod_fields(pod: Obj) -> dict[str, Any]:
    return {"uid": uid_of(pod), "revision": int(metadata(pod).get("resourceVersion") or 0)}


def _probe_fields(probing: Probing, answer: Any) -> dict[str, Any]:
    run, handler = probing.run, next((name for name in HANDLERS if name in probing.probe), "")
    detail = probing.probe.get(handler)
    path = str(detail.get("path") or detail.get("port") or "") if isinstance(detail, dict) else ""
    return {
        "call": "probe",
        "uid": run.uid,
        "container": run.container,
        "attempt": run.attempt,
        "probe": f"{'hook ' if probing.probe.get('hook') else ''}{handler} {path}".strip(),
        "error": (answer.message or "failed") if isinstance(answer, ProbeResult) and not answer.ok else "",
    }
