"""When an event was last seen."""

from __future__ import annotations

import pytest

from fathom.controllers.housekeeping.event_expiry import last_seen
from fathom.model.objects import Obj


@pytest.mark.parametrize(
    ("event", "seen"),
    [
        ({"metadata": {"creationTimestamp": "1"}}, "1"),
        ({"metadata": {"creationTimestamp": "1"}, "eventTime": "2"}, "2"),
        ({"metadata": {"creationTimestamp": "1"}, "eventTime": "2", "lastTimestamp": "3"}, "3"),
        ({"lastTimestamp": "3", "series": {"lastObservedTime": "4"}}, "4"),
        ({"metadata": {"creationTimestamp": "5"}, "lastTimestamp": "3"}, "5"),
    ],
)
def test_the_newest_word_counts(event: Obj, seen: str) -> None:
    assert last_seen(event) == seen
