"""The process in which the API server has previews made: one job on stdin, the answer on stdout."""

from __future__ import annotations

import os
import resource
import sys

import msgspec

from fathom.ask.preview_child import CPU_S_MAX, MEMORY_BYTES_MAX, WAIT_S_MAX, PreviewJob, PreviewReply
from fathom.kinds import runbook_run
from fathom.model.body import Body
from fathom.model.times import SECOND_NS
from fathom.seams.outside import Clock, live
from fathom.sim.fork import ForkFailed
from fathom.sim.fork_state import ClusterState, samples_of
from fathom.sim.preview.answer import preview_override, preview_run
from fathom.steer.conditions import BadCondition, NoConditions
from fathom.store.contents import StoreContents
from fathom.store.protocol import Entry

RUN = runbook_run.DEFINITION.kind
# Of the time that the API server waits; the rest is for the start, and for what one seed takes longer.
BUDGET_S = 0.8 * WAIT_S_MAX
# Behind everything that serves, and yet with a fourth of a busy core: somebody waits for the answer.
NICENESS = 5


class TimeBudget:
    """Whether another seed fits into the time, if it takes as long as those before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ns = clock.monotonic_ns()

    def has_time(self, done: int) -> bool:
        spent_s = (self._clock.monotonic_ns() - self._began_ns) / SECOND_NS
        return spent_s * (done + 1) / done <= BUDGET_S


def main() -> None:
    budget = TimeBudget(live().clock)
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=PreviewJob)
    sys.stdout.buffer.write(msgspec.json.encode(reply_to(job, budget)))


def reply_to(job: PreviewJob, budget: TimeBudget) -> PreviewReply:
    answer = preview_run if job.tried.get("kind") == RUN else preview_override
    try:
        preview = answer(
            state_of(job),
            job.tried,
            user=job.user,
            minutes=job.minutes,
            seeds=job.seeds,
            has_time=budget.has_time,
        )
    except (ForkFailed, ValueError, NoConditions, BadCondition) as error:
        return PreviewReply(failed=str(error))
    except MemoryError:
        return PreviewReply(failed=f"the fork needs more than {MEMORY_BYTES_MAX >> 30} GiB")
    return PreviewReply(preview)


def state_of(job: PreviewJob) -> ClusterState:
    entries = tuple(
        Entry(entry.key, Body(encoded=entry.body), entry.revision, entry.created) for entry in job.entries
    )
    contents = StoreContents(entries, job.revision)
    return ClusterState(contents=contents, time_ns=job.time_ns, usage=samples_of(job.pod_metrics))


if __name__ == "__main__":
    main()
