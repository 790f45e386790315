"""What is asked of a server of ours alone: $FATHOM_KUBECONFIG names another one for the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.attach.real import FOREIGN

# They compare the answers of two servers of ours, or need what a test has made of one: users with tokens, a
# refused policy, an audit log, an end.
OWN = {
    "test_ask_api.py",  # Stands in for the front proxy; test_ask_api_live.py asks through a real one.
    "test_mirror.py",
    "test_people_see_who_honours_what",
    "test_who_waits_for_a_declined_override_is_told_the_reason",
    "test_without_the_policy_no_override_is_honoured",
    "test_detach_names_what_people_wrote_and_asks",
    "test_a_policy_that_the_server_refuses_does_not_keep_anybody_from_scheduling",
    "test_a_user_without_rights_learns_what_each_lack_costs",
    "test_a_server_that_does_not_answer_is_an_error_not_an_empty_survey",
    "test_an_observer_with_the_installed_role_reads_every_kind",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        here = item.path.parent == Path(__file__).parent
        if FOREIGN and here and {item.path.name, item.name} & OWN:
            item.add_marker(pytest.mark.skip(reason="of fathom's own server alone: FATHOM_KUBECONFIG is set"))
