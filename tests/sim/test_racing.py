"""The lesson's event list, as `fathom sim run rollback-races-repair --seed 82219` tells it."""

from __future__ import annotations

from fathom.sim.report.run_report import RunReport, report
from fathom.sim.scenarios.racing import rollback_races_repair
from fathom.sim.world.scenario import plan_of

EVENTS = (
    "00:01 admit risk-api generation 42",
    "00:02 delay quota watch by 8 seconds",
    "00:03 schedule replica-042",
    "00:04 timeout binding write after commit",
    "00:05 restart scheduler leader",
    "00:07 rollback policy to v4",
    "00:08 repair scans reservations",
)


def told(seed: str) -> RunReport:
    return report(rollback_races_repair, plan_of(rollback_races_repair, seed))[0]


def test_a_rollback_races_repair_as_the_lesson_has_it() -> None:
    for seed in ("82219", "1"):
        found = told(seed)
        assert (found.verdict, found.tale) == ("holds", (f"seed: {seed}", *EVENTS))
