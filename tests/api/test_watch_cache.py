"""One resource's objects and their recent events, as the watch cache keeps them."""

from __future__ import annotations

from fathom.api.resource_cache import LOG_EVENTS_MAX, ResourceCache
from fathom.model.body import Body
from fathom.store.protocol import Change, Entry


def test_keys_of_what_came_and_went_are_forgotten_though_nobody_lists_them() -> None:
    cache = ResourceCache("events", keep_objects=False)
    revision = 0
    for number in range(3 * LOG_EVENTS_MAX):
        key = f"{cache.prefix}default/e{number:06d}"
        body = Body({"metadata": {"name": f"e{number:06d}", "namespace": "default"}})
        entry = Entry(key, body, revision + 1, revision + 1)
        cache.apply(Change(key, revision + 1, entry, None))
        revision += 2
        if number % 1000:
            cache.apply(Change(key, revision, None, entry))
    assert len(cache._keys) < 2 * LOG_EVENTS_MAX
    assert cache.keys("default") == sorted(cache.entries)
