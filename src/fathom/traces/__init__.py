"""Traces for OpenTelemetry, off by default: spans are made of what is recorded anyway.

    journal, API server, agent's host ──records──> SpanQueue ──a thread──> SpanMaker ──> OTLP over HTTP

    span.py           a span, and how ids follow from UIDs, revisions and decisions
    of_decisions.py   spans of decisions and of the writes that carry them out
    of_writes.py      spans of the requests that an API server committed
    of_runtime.py     spans of container starts and probes
    maker.py          records in, spans out
    queue.py          the bounded queue, the thread, the counters
    otlp.py           the only file that imports opentelemetry
    settings.py       the standard OTEL_… environment

An object's UID is its trace id, so every process adds to the same trace without being told about it. Nothing
here is an input of a deciding process: no time, no randomness, no header. Next room: the wiring.
"""
