"""What a process of controllers writes beside what its controllers write: its lease, its signals, Events."""

from __future__ import annotations

from fathom.control.lease import JITTER, Timing
from fathom.control.signals import EVERY_S as SIGNALS_EVERY_S
from fathom.model.accounts import CONTROLLERS as ACCOUNT
from fathom.model.declared import API_SERVER, MUTATING_ROOM, Actor, Reads, Timer, Writes

LEADING_READS = (Reads("Lease", ("metadata.annotations", "spec"), source="api"),)
LEADING_WRITES = (
    Writes("Lease", ("metadata.annotations", "spec"), creates=True),
    Writes("ComponentSignals", ("status",), creates=True),
    Writes("Event", ("count", "lastTimestamp"), creates=True),
)
LEADING_TIMERS = (
    Timer("renewal of the lease", Timing().retry_s, spread=JITTER),
    Timer("own signals", SIGNALS_EVERY_S),
)

CONTROLLER_PROCESS = Actor(
    name="controllers",
    process="controllers",
    account=ACCOUNT,
    reads=LEADING_READS,
    writes=LEADING_WRITES,
    waits_in=(MUTATING_ROOM,),
    calls=(API_SERVER,),
    timers=LEADING_TIMERS,
)
