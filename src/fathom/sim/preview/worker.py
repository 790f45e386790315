"""The process in which the API server has previews made: one job on stdin, the answer on stdout."""

from __future__ import annotations

import os
import resource
import sys

import msgspec

from fathom.ask.preview_child import CPU_S_MAX, MEMORY_BYTES_MAX, PreviewJob, PreviewReply
from fathom.model.body import Body
from fathom.sim.fork import ForkFailed
from fathom.sim.fork_state import ClusterState, samples_of
from fathom.sim.preview.answer import preview_override
from fathom.store.contents import StoreContents
from fathom.store.protocol import Entry


def main() -> None:
    os.nice(19)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=PreviewJob)
    sys.stdout.buffer.write(msgspec.json.encode(reply_to(job)))


def reply_to(job: PreviewJob) -> PreviewReply:
    try:
        preview = preview_override(
            state_of(job), job.override, user=job.user, minutes=job.minutes, seeds=job.seeds
        )
    except (ForkFailed, ValueError) as error:
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
