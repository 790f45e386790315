"""Asks processes what their tapes tell about a moment that the store has forgotten."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence

import msgspec

from fathom.api.agent_connections import Agents
from fathom.ask.processes import RegisteredProcess
from fathom.explain.evidence import Gap, revision_of
from fathom.model.errors import ApiError, unavailable
from fathom.model.objects import Key, Obj, key_of, metadata
from fathom.record.past_objects import PastKind, TapeState, redacted

# Of one process, unpacked: some 100,000 pods.
STATE_BYTES_MAX = 256 << 20

_decode_states = msgspec.json.Decoder(list[TapeState]).decode


class TapesAnswer(msgspec.Struct, frozen=True):
    states: tuple[TapeState, ...]
    gaps: tuple[Gap, ...]


async def ask_tapes(
    agents: Agents, processes: Sequence[RegisteredProcess], *, revision: int = 0, time_ns: int = 0
) -> TapesAnswer:
    """What every process has on its tapes about the revision; or the revision of a time."""
    path = f"/past?revision={revision}&time={time_ns}"
    answers = await asyncio.gather(*(_ask(agents, process, path) for process in processes))
    states = [state for answer in answers for state in answer.states]
    problems = [Gap(f"tape of {state.tape}", state.problem) for state in states if state.problem]
    return TapesAnswer(tuple(states), (*(gap for answer in answers for gap in answer.gaps), *problems))


async def _ask(agents: Agents, process: RegisteredProcess, path: str) -> TapesAnswer:
    try:
        if process.address is None:
            raise unavailable(process.why)
        status, body = await agents.page(process.address, path)
        if status != 200:
            raise unavailable(body[:200].decode(errors="replace"))
        return TapesAnswer(tuple(await asyncio.to_thread(_unpacked, body)), ())
    except ApiError as error:
        why = error.message
    except (zlib.error, msgspec.DecodeError) as error:
        why = f"its answer cannot be read: {error}"
    return TapesAnswer((), (Gap(f"tapes of {process.name}", why),))


def _unpacked(body: bytes) -> list[TapeState]:
    unpacker = zlib.decompressobj()
    raw = unpacker.decompress(body, STATE_BYTES_MAX)
    if unpacker.unconsumed_tail:
        raise zlib.error(f"it has more than {STATE_BYTES_MAX >> 20} MiB")
    return _decode_states(raw)


class TapedObjects:
    """Objects of one revision, from tapes. Kinds that are on no tape are not known: `unknown` has those that
    were asked for."""

    def __init__(self, states: Sequence[TapeState], revision: int) -> None:
        self._revision = revision
        self._tapes: dict[str, str] = {}
        self._kinds: dict[str, PastKind] = {}
        for state in states:
            for resource, kind in state.kinds.items():
                if resource not in self._kinds or self._kinds[resource].revision < kind.revision:
                    self._kinds[resource], self._tapes[resource] = kind, state.tape
        self._decoded: dict[str, dict[Key, Obj]] = {}
        self.unknown: set[str] = set()

    @property
    def tapes(self) -> tuple[str, ...]:
        """The tapes that the objects come from."""
        return tuple(sorted(set(self._tapes.values())))

    def get(self, resource: str, key: Key) -> Obj | None:
        return self._objects(resource).get(key)

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        held = self._objects(resource).values()
        return [obj for obj in held if namespace is None or metadata(obj).get("namespace", "") == namespace]

    def revision(self, resource: str) -> int:
        return self._kinds[resource].revision if resource in self._kinds else 0

    def last_change(self, resource: str) -> int:
        return max(map(revision_of, self._objects(resource).values()), default=0)

    def has(self, resource: str) -> bool:
        return resource in self._kinds

    def gaps(self) -> tuple[Gap, ...]:
        """Kinds that were asked for and are on no tape, or not up to the revision."""
        behind = [
            Gap(f"tape of {self._tapes[resource]}", f"its {resource} are of revision {kind.revision}")
            for resource, kind in sorted(self._kinds.items())
            if kind.revision < self._revision and resource in self._decoded
        ]
        unknown = [Gap("tapes", f"no tape has {', '.join(sorted(self.unknown))}")] if self.unknown else []
        return (*behind, *unknown)

    def _objects(self, resource: str) -> dict[Key, Obj]:
        if resource not in self._kinds:
            self.unknown.add(resource)
            return {}
        if resource not in self._decoded:
            objects = [redacted(resource, msgspec.json.decode(raw)) for raw in self._kinds[resource].objects]
            self._decoded[resource] = {key_of(obj): obj for obj in sorted(objects, key=key_of)}
        return self._decoded[resource]
