"""All that a test of a controller needs, in one import. docs/testing-your-controller.md builds one.

from fathom.sim.testing import Menu, World, run_controllers, scenario
"""

from __future__ import annotations

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Committed
from fathom.control.lease import Timing
from fathom.model.objects import Key, Obj
from fathom.seams.process import Inside
from fathom.sim.checkers import everywhere
from fathom.sim.faults import (
    STORE,
    AnyFault,
    CommitLost,
    CommitUnknown,
    Compact,
    Crash,
    CrashAtWrite,
    DropWatch,
    Happening,
    HoldWatch,
    LoseReply,
    LoseRequest,
    Partition,
    Pause,
    Rebase,
    Refuse,
    Skew,
    SlowReply,
    SlowRequest,
    StaleServer,
    Stop,
)
from fathom.sim.invariants import Checker, Finding, Found, Seen
from fathom.sim.menu import Menu
from fathom.sim.running import run_controllers
from fathom.sim.scenario import Scenario, scenario
from fathom.sim.world import World

__all__ = [
    "STORE",
    "AnyFault",
    "Api",
    "Checker",
    "CommitLost",
    "CommitUnknown",
    "Committed",
    "Compact",
    "Crash",
    "CrashAtWrite",
    "DropWatch",
    "Finding",
    "Found",
    "Happening",
    "HoldWatch",
    "Inside",
    "Key",
    "LoseReply",
    "LoseRequest",
    "Menu",
    "Obj",
    "Partition",
    "Pause",
    "Rebase",
    "Refuse",
    "Resource",
    "Scenario",
    "Seen",
    "Skew",
    "SlowReply",
    "SlowRequest",
    "StaleServer",
    "Stop",
    "Timing",
    "World",
    "everywhere",
    "run_controllers",
    "scenario",
]
