"""fathom's own scenarios, by name: each one is run with many seeds and every invariant.

A module of this package has some scenarios and lists them in its `SCENARIOS`; adding the module here
registers them. Users' own scenarios are found as FILE.py:NAME.
"""

from __future__ import annotations

import importlib.util
import sys
import zlib
from difflib import get_close_matches
from pathlib import Path

import msgspec

from fathom.sim.scenarios import (
    admitting,
    apart,
    basics,
    breaking_glass,
    by_hand,
    chains,
    changing_hands,
    claims,
    clocks,
    cluster,
    constraints,
    contradicting,
    crashes,
    daily_use,
    deaf,
    deleted_leases,
    draining,
    drains,
    due,
    duplicate,
    edited_overrides,
    endings,
    expiring,
    failures,
    fights,
    forbidding,
    foreign_conditions,
    full_zones,
    gateways,
    granting,
    gray,
    history,
    in_time,
    jobs,
    kept_history,
    late_commits,
    later_terms,
    leaderless,
    leaders,
    leading_again,
    lives,
    loads,
    long_waits,
    many_objects,
    namesakes,
    naming,
    new_leaders,
    nodes,
    oldviews,
    ordinary,
    orphaning,
    others_marks,
    overriding,
    owning,
    particular,
    pausing_repair,
    policies,
    preempting,
    questions,
    quotas,
    racing,
    reading,
    recovering,
    refusals,
    relisting,
    replaced_victims,
    replicas,
    reservations,
    returning,
    rollback,
    runbooks,
    scheduling,
    serving,
    shares,
    sorts_of_pods,
    stale_runbooks,
    stopping,
    surviving,
    tainting,
    timed_loads,
    timelines,
    troubled,
    unclear_answers,
    undone_runs,
    unwell,
    waiting_pods,
    waking,
    watched_runs,
    workloads,
)
from fathom.sim.scenarios.staff import AGENT
from fathom.sim.world.scenario import Scenario

MODULES = (
    basics,
    history,
    replicas,
    leaderless,
    leaders,
    reservations,
    duplicate,
    failures,
    jobs,
    serving,
    claims,
    cluster,
    quotas,
    crashes,
    scheduling,
    preempting,
    overriding,
    particular,
    recovering,
    runbooks,
    workloads,
    rollback,
    racing,
    owning,
    drains,
    constraints,
    oldviews,
    returning,
    loads,
    gateways,
    endings,
    refusals,
    waking,
    chains,
    full_zones,
    new_leaders,
    unwell,
    reading,
    nodes,
    tainting,
    timelines,
    lives,
    gray,
    naming,
    clocks,
    policies,
    admitting,
    questions,
    fights,
    forbidding,
    edited_overrides,
    others_marks,
    pausing_repair,
    expiring,
    contradicting,
    deaf,
    breaking_glass,
    by_hand,
    stale_runbooks,
    deleted_leases,
    long_waits,
    namesakes,
    surviving,
    foreign_conditions,
    late_commits,
    changing_hands,
    in_time,
    leading_again,
    unclear_answers,
    many_objects,
    apart,
    sorts_of_pods,
    watched_runs,
    replaced_victims,
    ordinary,
    orphaning,
    due,
    stopping,
    draining,
    troubled,
    granting,
    daily_use,
    shares,
    relisting,
    kept_history,
    later_terms,
    timed_loads,
    undone_runs,
    waiting_pods,
)


def _with_clocks(scenario: Scenario) -> Scenario:
    """Nodes that are one simulated process end pods by its wall clock, so that clock stays right.
    Real agents, which are named after their nodes, count a grace period on their monotonic clocks."""
    menu = scenario.menu
    if AGENT not in menu.processes or menu.clocks:
        return scenario
    clocks = tuple(name for name in menu.processes if name != AGENT) or ("nobody",)
    return msgspec.structs.replace(scenario, menu=msgspec.structs.replace(menu, clocks=clocks))


SCENARIOS: dict[str, Scenario] = {
    scenario.name: _with_clocks(scenario) for module in MODULES for scenario in module.SCENARIOS
}


class NoScenario(Exception):
    """No scenario has that name. Its message lists the existing ones, in one line."""


def find(name: str) -> Scenario:
    """Find a scenario by its name, or as FILE.py:NAME, where NAME is its name or its variable."""
    if name in SCENARIOS:
        return SCENARIOS[name]
    file, colon, within = name.rpartition(":")
    if colon and file.endswith(".py"):
        return _from_file(Path(file), within, name)
    near = get_close_matches(name, SCENARIOS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise NoScenario(f"there is no scenario {name!r}: {hint}`fathom sim list` lists all")


def _from_file(file: Path, within: str, name: str) -> Scenario:
    scenarios = {key: value for key, value in _loaded(file).items() if isinstance(value, Scenario)}
    for key, scenario in scenarios.items():
        if within in {key, scenario.name}:
            return Scenario(
                **{field: getattr(scenario, field) for field in scenario.__struct_fields__} | {"name": name}
            )
    names = ", ".join(scenario.name for scenario in scenarios.values()) or "none"
    raise NoScenario(f"there is no scenario {within!r} in {file}: there are {names}")


def _loaded(file: Path) -> dict[str, object]:
    """The variables of the file. It may import modules beside it and in the working directory, as with
    `python FILE.py` and `python -m`."""
    place = file.resolve()
    spec = importlib.util.spec_from_file_location(
        f"fathom_scenarios_{place.stem}_{zlib.crc32(bytes(place)):x}", place
    )
    if spec is None or spec.loader is None or not file.is_file():
        raise NoScenario(f"{file} is not a Python file")
    if spec.name not in sys.modules:
        sys.path += [folder for folder in (str(place.parent), str(Path.cwd())) if folder not in sys.path]
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[spec.name]
            raise NoScenario(f"{file} could not be loaded: {type(error).__name__}: {error}") from error
    return vars(sys.modules[spec.name])
