"""Detects objects changed in place: the processes of a world share them without copying.

Live, every process decodes its own copy, and a change in place would be that process's private mistake. Here
it would reach all processes, and a run would prove nothing. So at the end of a run the objects in the store
and in the servers' logs are compared with what was written: bytes that were made at the commit.

With `Engine.codec` messages travel as bytes instead: the slow cross-check, with the same trace.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.api.resource_cache import DECODED_EVENTS_MAX
from fathom.api.watch_cache import WatchCache
from fathom.model.body import Body, decode_json, encode_json
from fathom.store.protocol import Entry


def changed_in_place(entries: Iterator[Entry], caches: Iterator[WatchCache]) -> str:
    """The key of an object that is not as it was written; '' if all are."""
    for entry in entries:
        if is_changed(entry.body):
            return entry.key
    for cache in caches:
        for resource in cache.resources():
            for logged in cache.of(resource).log[-DECODED_EVENTS_MAX:]:
                if logged.is_changed or is_changed(logged.body):
                    return logged.key
    return ""


def is_changed(body: Body) -> bool:
    """Compares content. The order of fields may differ: of equal parts only one is kept."""
    return encode_json(body.obj) != body.encoded and decode_json(body.encoded) != body.obj
