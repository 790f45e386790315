"""Crash loop backoff: how long a container that keeps ending, or cannot start, waits. As in kubelet."""

from __future__ import annotations

from fathom.agent.container_views import ContainerTrouble
from fathom.agent.runtime import ContainerRun
from fathom.model.backoff import Backoff
from fathom.model.reasons import CLUSTER_STOPPED, CONFIG, container_boundary
from fathom.model.times import SECOND_NS

CRASH_LOOP = Backoff(10, 300)
CONFIG_S = 5
# A container that ran this long was healthy: its next failure starts a new count. Twice the longest wait.
STEADY_S = 600


def crashes_after(run: ContainerRun) -> int:
    """Crashes in a row, including the end of this run."""
    if run.exit is None or run.exit.finished_ns - run.started_ns >= STEADY_S * SECOND_NS:
        return 0
    if run.exit.reason == CLUSTER_STOPPED:
        return run.crashes
    return run.crashes + 1


def delay_s(crashes: int) -> int:
    """The first restart is immediate: most programs that end do so once."""
    return 0 if crashes <= 1 else round(CRASH_LOOP.whole_s(crashes - 1))


def restart_ns(run: ContainerRun) -> int:
    assert run.exit is not None
    return run.exit.finished_ns + delay_s(crashes_after(run)) * SECOND_NS


def retry_ns(trouble: ContainerTrouble) -> int:
    """A ConfigMap or Secret that is missing is looked for again and again: who creates it need not wait. That
    costs one read, and kubelet's wait does not grow either."""
    wait_s = CONFIG_S if is_config(trouble) else round(CRASH_LOOP.whole_s(trouble.count))
    return trouble.at_ns + wait_s * SECOND_NS


def is_config(trouble: ContainerTrouble) -> bool:
    return container_boundary(trouble.reason) == CONFIG
