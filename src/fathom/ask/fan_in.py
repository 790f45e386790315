"""Asks processes for their records and their state, all at once and with one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import msgspec

from fathom.api.agent_connections import Agents
from fathom.ask.processes import RegisteredProcess
from fathom.explain.evidence import Gap, ProcessState, Recorded, RecordQuery
from fathom.model.errors import ApiError, unavailable

# A process that is well answers in some milliseconds. A stopped one must not hold up the answer for long.
DEADLINE_S = 2.0
# A query is in the URL, and servers accept some 8 KiB of it.
OBJECTS_PER_REQUEST = 8
IDS_PER_REQUEST = 64
UIDS_PER_REQUEST = 100

_decode_records = msgspec.json.Decoder(list[Recorded]).decode
_decode_states = msgspec.json.Decoder(list[ProcessState]).decode


class ProcessAnswer(msgspec.Struct, frozen=True):
    records: tuple[Recorded, ...] = ()
    states: tuple[ProcessState, ...] = ()
    gap: Gap | None = None


async def ask_processes(
    agents: Agents, processes: Sequence[RegisteredProcess], query: RecordQuery, about: Sequence[str]
) -> list[ProcessAnswer]:
    """`about`: UIDs of objects whose places in queues are wanted."""
    return await asyncio.gather(*(_ask(agents, process, query, about) for process in processes))


async def _ask(
    agents: Agents, process: RegisteredProcess, query: RecordQuery, about: Sequence[str]
) -> ProcessAnswer:
    try:
        async with asyncio.timeout(DEADLINE_S):
            records, states = await asyncio.gather(
                _records(agents, process, query), _states(agents, process, about)
            )
    except TimeoutError:
        return _no_answer(process, f"no answer within {DEADLINE_S:g} s")
    except ApiError as error:
        return _no_answer(process, error.message)
    except msgspec.DecodeError as error:
        return _no_answer(process, f"its answer cannot be read: {error}")
    return ProcessAnswer(tuple(records), tuple(states))


def _no_answer(process: RegisteredProcess, why: str) -> ProcessAnswer:
    state = ProcessState(process=process.name, parts=process.parts, answered=False)
    return ProcessAnswer(states=(state,), gap=Gap(f"journal of {process.name}", why))


async def _records(agents: Agents, process: RegisteredProcess, query: RecordQuery) -> list[Recorded]:
    records: dict[str, Recorded] = {}
    for part in parts_of_query(query):
        encoded = quote(msgspec.json.encode(part).decode(), safe="")
        for record in _decode_records(await _page(agents, process, f"/records?query={encoded}")):
            records.setdefault(record.kept.decision.id, record)
    return [msgspec.structs.replace(record, process=process.name) for record in records.values()]


def parts_of_query(query: RecordQuery) -> Iterator[RecordQuery]:
    """The query in parts that fit into a URL each."""
    if query.is_for_all:
        yield query
        return
    for start in range(0, len(query.objects), OBJECTS_PER_REQUEST):
        objects = query.objects[start : start + OBJECTS_PER_REQUEST]
        yield msgspec.structs.replace(query, objects=objects, decisions=(), revisions=())
    for start in range(0, len(query.decisions), IDS_PER_REQUEST):
        ids = query.decisions[start : start + IDS_PER_REQUEST]
        yield msgspec.structs.replace(query, objects=(), decisions=ids, revisions=())
    for start in range(0, len(query.revisions), IDS_PER_REQUEST):
        revisions = query.revisions[start : start + IDS_PER_REQUEST]
        yield msgspec.structs.replace(query, objects=(), decisions=(), revisions=revisions)


async def _states(agents: Agents, process: RegisteredProcess, about: Sequence[str]) -> list[ProcessState]:
    uids = ",".join(about[:UIDS_PER_REQUEST])
    states = _decode_states(await _page(agents, process, f"/state?about={quote(uids, safe=',')}"))
    return [msgspec.structs.replace(state, process=process.name) for state in states]


async def _page(agents: Agents, process: RegisteredProcess, path: str) -> bytes:
    if process.address is None:
        raise unavailable(process.why)
    status, body = await agents.page(process.address, path)
    if status != 200:
        raise unavailable(f"HTTP {status}: {body[:200].decode(errors='replace')}")
    return body
