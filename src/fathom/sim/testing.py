"""Everything that a test of a controller needs, in one import. docs/testing-your-controller.md builds one.

from fathom.sim.testing import Menu, World, run_controllers, scenario

For operators that were not written for fathom (docs/testing-your-operator.md): OperatorTest, run_operator,
run_program. Those need greenlet, which comes with `fathom-control[test]`: they are imported when asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    SlowCommit,
    SlowReply,
    SlowRequest,
    StaleServer,
    Stop,
)
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

if TYPE_CHECKING:
    from fathom.sim.foreign.operator_test import OperatorTest, operator_scenario
    from fathom.sim.foreign.programs import run_operator, run_program

_NEED_GREENLET = {
    "OperatorTest": "fathom.sim.foreign.operator_test",
    "operator_scenario": "fathom.sim.foreign.operator_test",
    "run_operator": "fathom.sim.foreign.programs",
    "run_program": "fathom.sim.foreign.programs",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_GREENLET:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_NEED_GREENLET[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "greenlet":
            raise
        raise ImportError(f"{name} needs greenlet: pip install 'fathom-control[test]'") from error


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
    "OperatorTest",
    "Partition",
    "Pause",
    "Rebase",
    "Refuse",
    "Resource",
    "Scenario",
    "Seen",
    "Skew",
    "SlowCommit",
    "SlowReply",
    "SlowRequest",
    "StaleServer",
    "Stop",
    "Timing",
    "World",
    "everywhere",
    "operator_scenario",
    "run_controllers",
    "run_operator",
    "run_program",
    "scenario",
]
