"""How long a container that keeps ending, or cannot be started, waits for its next try. As kubelet has it."""

from __future__ import annotations

from fathom.agent.container_views import ContainerTrouble
from fathom.agent.runtime import ContainerRun
from fathom.model.backoff import Backoff
from fathom.model.times import SECOND_NS

CRASH_LOOP = Backoff(10, 300)
# Who ran this long was well: what happens next is a new trouble. Twice the longest wait.
STEADY_S = 600


def crashes_after(run: ContainerRun) -> int:
    """In a row, counting this one's end."""
    if run.exit is None or run.exit.finished_ns - run.started_ns >= STEADY_S * SECOND_NS:
        return 0
    return run.crashes + 1


def delay_s(crashes: int) -> int:
    """The first restart is at once: most programs that end do so once."""
    return 0 if crashes <= 1 else round(CRASH_LOOP.whole_s(crashes - 1))


def restart_ns(run: ContainerRun) -> int:
    assert run.exit is not None
    return run.exit.finished_ns + delay_s(crashes_after(run)) * SECOND_NS


def retry_ns(trouble: ContainerTrouble) -> int:
    return trouble.at_ns + round(CRASH_LOOP.whole_s(trouble.count)) * SECOND_NS
