"""Tapes name code by ids, which stay; and by the names that older versions wrote."""

from __future__ import annotations

import pytest

from fathom.control.process import load_controller
from fathom.controllers.all import CONTROLLERS as RUN
from fathom.controllers.all import SUMMARY, WORKLOADS
from fathom.seams.process import load_entry
from fathom.seams.recorded_code import CONTROLLERS, OLD_NAMES, PROCESSES, id_of, location_of


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_is_where_the_table_says(name: str) -> None:
    assert callable(load_entry(name))


@pytest.mark.parametrize("name", CONTROLLERS)
def test_every_controller_is_where_the_table_says(name: str) -> None:
    assert load_controller(name).name


@pytest.mark.parametrize("old", OLD_NAMES)
def test_what_older_versions_wrote_is_found(old: str) -> None:
    assert location_of(old) == location_of(OLD_NAMES[old]) != OLD_NAMES[old]
    assert id_of(old) == OLD_NAMES[old]


def test_a_users_own_code_has_no_id() -> None:
    assert not id_of("mine.controllers:Mine")
    assert location_of("mine.controllers:Mine") == "mine.controllers:Mine"


def test_a_cluster_runs_every_controller_once() -> None:
    assert sorted([*RUN, SUMMARY]) == sorted(CONTROLLERS)
    assert set(WORKLOADS) <= set(RUN)
