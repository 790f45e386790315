"""Events about containers that ended with an error."""

from __future__ import annotations

from fathom.agent.exit_events import event_of_exit
from fathom.agent.runtime import Exit


def test_an_event_says_that_memory_was_the_cause() -> None:
    peak = "memory peak 67108864 of the limit 67108864 bytes"
    assert event_of_exit("main", Exit(137, 0, 9, "OOMKilled", peak)) == (
        "OOMKilled",
        f"Container main was killed because it used more memory than its limit, with code 137: {peak}",
    )
    assert event_of_exit("main", Exit(137, 0, 9, "OOMKilled")) == (
        "OOMKilled",
        "Container main was killed because it used more memory than its limit, with code 137",
    )
    assert event_of_exit("main", Exit(1, 0, 0, "MemoryRefused", "refused")) == (
        "MemoryRefused",
        "Container main ended because it was refused memory beyond its limit, with code 1: refused",
    )


def test_another_exit_says_its_code_and_the_last_words() -> None:
    assert event_of_exit("main", Exit(2, 0)) == ("Exited", "main ended with code 2: see its log")
    assert event_of_exit("main", Exit(2, 0, message="no file")) == (
        "Exited",
        "main ended with code 2: no file",
    )
