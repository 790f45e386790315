"""Everything that a test of a controller needs, in one import. docs/testing-your-controller.md builds one.

from fathom.sim.testing import Menu, World, run_controllers, scenario
"""

from __future__ import annotations

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Committed
from fathom.control.lease import Timing
from fathom.model.objects import Key, Obj
from fathom.seams.process import Inside
from fathom.sim.checkers import everywhere
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import (
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
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

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
