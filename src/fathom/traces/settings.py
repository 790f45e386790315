"""Whether and where spans are exported, by OpenTelemetry's standard environment variables.

Headers, timeouts, compression and certificates (OTEL_EXPORTER_OTLP_…) and OTEL_RESOURCE_ATTRIBUTES are read
by OpenTelemetry's own code.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

import msgspec

ENDPOINT, TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
DISABLED, EXPORTER = "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"
OVERRULED = (TRACES_ENDPOINT, DISABLED, EXPORTER)  # By `--traces URL`.
SAMPLER, SAMPLER_ARG = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
RATIO_SAMPLERS = frozenset({"traceidratio", "parentbased_traceidratio"})
NEVER_SAMPLERS = frozenset({"always_off", "parentbased_always_off"})
NEEDED = ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk")
HOW_TO_INSTALL = "traces need OpenTelemetry: pip install 'fathom-control[otel]'"


class TraceSettings(msgspec.Struct, frozen=True):
    endpoint: str  # For messages only: the exporter reads the environment itself.
    ratio: float = 1.0  # The share of traces that are exported; the same ones by every process.


def trace_settings(environ: Mapping[str, str]) -> TraceSettings | None:
    """None: traces are off, which they are unless an endpoint is given."""
    endpoint = environ.get(TRACES_ENDPOINT) or environ.get(ENDPOINT) or ""
    disabled = environ.get(DISABLED, "").strip().lower() == "true"
    if not endpoint or disabled or environ.get(EXPORTER, "otlp").strip().lower() == "none":
        return None
    ratio = _ratio(environ.get(SAMPLER, "").strip().lower(), environ.get(SAMPLER_ARG, ""))
    return TraceSettings(endpoint, ratio) if ratio > 0 else None


def is_installed() -> bool:
    """Looks for the packages without importing the exporter."""
    try:
        return all(find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:  # Of a parent package.
        return False


def _ratio(sampler: str, argument: str) -> float:
    """As the specification says, an invalid argument means everything."""
    if sampler in NEVER_SAMPLERS:
        return 0.0
    if sampler not in RATIO_SAMPLERS:
        return 1.0
    try:
        ratio = float(argument)
    except ValueError:
        return 1.0
    return ratio if 0.0 <= ratio <= 1.0 else 1.0
