"""What keeps one container from being ready, from its agent's report. Pure.

The order is that in which a start can fail: image, configuration, command; then what happens while it runs.
"""

from __future__ import annotations

from collections.abc import Callable

from fathom.explain.why.case import ContainerFacts, PodCase
from fathom.explain.why.end_troubles import (
    completed_trouble,
    crash_trouble,
    failed_hook_trouble,
    killed_by_probe_trouble,
    memory_trouble,
)
from fathom.explain.why.probe_troubles import probe_trouble
from fathom.explain.why.start_troubles import (
    command_trouble,
    config_trouble,
    image_trouble,
    not_created_trouble,
)
from fathom.explain.why.trouble import Trouble


def trouble_of(container: ContainerFacts, case: PodCase) -> Trouble | None:
    return next((trouble for look in LOOKS if (trouble := look(container, case)) is not None), None)


def _creating(container: ContainerFacts, case: PodCase) -> Trouble | None:
    """Nothing is wrong that is known of: its agent has not started it yet, or an init container runs."""
    if container.ended or (container.is_running and not container.is_init):
        return None
    if container.is_running:
        return Trouble(8, f"init container {container.name} has not ended yet")
    return Trouble(9, f"container {container.name} is being started")


LOOKS: tuple[Callable[[ContainerFacts, PodCase], Trouble | None], ...] = (
    image_trouble,
    config_trouble,
    command_trouble,
    not_created_trouble,
    memory_trouble,
    killed_by_probe_trouble,
    failed_hook_trouble,
    crash_trouble,
    completed_trouble,
    probe_trouble,
    _creating,
)
