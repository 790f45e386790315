"""Bugs that were invented before any story was written for them: each applies to today's code, and is found
in the scenario that has found it first, or that was written because of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.sim.putting_back import in_a_child

from fathom.sim.scenarios import SCENARIOS
from fathom.sim.search.patches import BadPatch, load
from fathom.sim.world.scenario import plan_of, sweep, tell
from fathom.sim.zoo import unseen

pytestmark = pytest.mark.live

FILES = sorted(Path(unseen.__file__).parent.glob("[a-z]*.py"))


# Where each is looked for; `script/unseen-bugs` looks everywhere. Those that are not here say why: they have
# no effect, or something is missing.
FOUND = {
    "acknowledged_for_the_predecessor": "observed-by-each-leader",
    "acknowledged_in_the_middle": "acknowledged-after-the-pass",
    "acknowledgement_of_an_earlier_leader_counts": "led-by-who-has-not-heard",
    "adopted_beside_new": "pods-change-hands",
    "agent_knows_its_own_conditions": "agents-alone",
    "anothers_revision_on_record": "answered-with-a-timeout",
    "anybodys_child": "pods-change-hands",
    "available_by_hearsay": "reported-and-gone",
    "available_without_a_look": "pods-change-hands",
    "binding_writes_the_pod_as_first_read": "two-schedulers-stale-cache",
    "bound_by_name": "a-scheduler-leads-again",
    "bound_pod_still_waits_for_a_policy": "pending-after-rollback",
    "bound_whatever_the_node_became": "judged-and-then-late",
    "bound_with_an_expired_reservation": "bound-after-the-expiry",
    "brake_remembers_its_first_hold": "silent-nodes-come-back-in-turn",
    "broken_workload_discredits_its_nodes": "gray-nodes",
    "budget_counts_a_deployment_per_revision": "ordinary-days",
    "budget_raised_from_an_old_view": "drains-seen-late",
    "busy_watch_skips_unread_events": "read-from-long-ago",
    "choices_of_an_earlier_term_stay": "particular-pods",
    "clock_set_back_keeps_old_contexts": "scheduled-while-clocks-are-set",
    "clock_set_forward_goes_unnoticed": "due-when-clocks-are-set",
    "collects_by_name": "named-again-in-the-middle",
    "compaction_unannounced": "informer-relists",
    "condition_keeps_its_first_transition_time": "not-all-is-well",
    "crash_loop_begins_with_each_crash": "pods-crash-again-and-again",
    "crashed_container_waits_for_the_clock": "crashing-while-clocks-are-set",
    "create_overwrites": "replicas",
    "created_in_a_leaving_namespace": "judged-and-then-late",
    "deadline_without_a_look": "jobs-in-time",
    "definition_goes_before_its_objects": "defined-again",
    "delete_with_uid_ignores_the_revision": "replicas-handed-over",
    "deleted_grants_outlive_a_gap": "roles-come-and-go",
    "deleted_lease_is_not_made_again": "agents-alone",
    "deletes_whatever_it_became": "pods-change-hands",
    "deletion_does_not_move_pod_to_its_group": "constrained",
    "drain_evicts_both_last_replicas": "drained-by-an-override",
    "each_change_uses_up_an_attempt": "much-happens-while-there-is-no-room",
    "each_leader_scales": "scaled-by-one-leader-after-another",
    "edited_role_keeps_its_old_rules": "roles-come-and-go",
    "ended_override_wakes_nobody": "overrides-end",
    "ended_pod_is_history_while_deleted": "restarted-after-each-write",
    "ended_pod_keeps_its_room": "one-scheduler",
    "ended_pods_count_at_admission": "pods-do-not-fit",
    "epochs_begin_anew": "leases-are-deleted",
    "evicted_counts_as_there": "drains",
    "evicted_pod_is_not_noted_in_its_budget": "drains",
    "eviction_by_counts_of_an_older_budget": "drains",
    "evicts_the_namesake": "named-again-in-the-middle",
    "expired_a_minute_early": "reserved-for-long",
    "failed_index_runs_again": "ordinary-days",
    "failed_read_settles_a_write": "written-and-not-to-be-read",
    "failed_route_status_is_not_repeated": "gateway-is-refused",
    "failure_replaces_conditions": "foreign-conditions",
    "fence_is_looked_at_and_not_expected": "written-late-to-a-stale-server",
    "fight_condition_is_never_withdrawn": "two-writers",
    "fight_dropped_with_its_failed_event": "two-writers",
    "fight_of_an_earlier_server_stays": "a-fight-ends-while-its-server-is-down",
    "finished_pod_counts_after_relist": "a-scheduler-leads-again",
    "foreground_ends_before_the_grandchildren": "owners-come-and-go",
    "given_up_node_port_stays_claimed": "daily-use",
    "grows_before_it_settles": "asked-for-and-not-yet-made",
    "held_for_a_namesake": "reserved-for-a-namesake",
    "held_while_nobody_looked": "nobody-looked-for-a-while",
    "inherits_the_timeout": "rollouts-end",
    "job_cannot_end_before_its_start": "due-when-clocks-are-set",
    "job_holds_its_own_deletion_up": "nobody-led-meanwhile",
    "judged_time_carries_over": "policy-rollout-with-stale-signals",
    "judged_twice": "containers-outlive-their-agent",
    "kept_from_its_start": "jobs-in-time",
    "killed_without_grace": "agents-alone",
    "last_anti_affinity_of_others_wins": "particular-pods",
    "late_bookmark_is_news": "written-late-to-a-stale-server",
    "late_finalize_hits_the_next_namespace": "daily-use",
    "late_pods_have_no_time": "came-after-the-taint",
    "late_request_passes_a_pause_of_nodes": "paused-while-a-request-is-on-its-way",
    "late_zone_of_a_node_is_not_published": "ordinary-days",
    "latest_timer_counts": "jobs-in-time",
    "lease_identity_is_the_process_name": "leaders",
    "lease_renewal_takes_its_epoch_from_the_cache": "daily-use",
    "lease_seen_anew_at_each_look": "who-stops-is-named",
    "lease_taken_early": "leaders",
    "leaving_pods_get_traffic": "real-endpoints",
    "left_in_hand": "a-scheduler-leads-again",
    "left_the_selection_unheard": "read-from-long-ago",
    "leftovers_of_the_gone_are_not_looked_at": "nobody-led-meanwhile",
    "let_go_while_it_runs": "agents-alone",
    "list_removes_own_writes_that_are_newer": "listed-while-it-writes",
    "listed_own_write_is_dropped": "replicas-handed-over",
    "lost_word_is_not_repeated": "what-pods-wait-for-is-said",
    "mark_from_the_future_stops_compaction": "kept-for-a-while",
    "namesake_of_victim_is_marked": "victims-are-replaced",
    "namesakes_are_one": "informer-relists",
    "namespace_not_looked_at_again": "ordinary-days",
    "namespace_shows_its_longer_namesakes": "read-from-long-ago",
    "never_heard_again": "stopped-while-unheard",
    "new_leader_heals_the_dead": "led-anew-while-a-node-is-dead",
    "new_leader_scales_down_without_window": "shrinks-under-new-leaders",
    "newest_list_shares_an_older_answer": "quota-changes",
    "newest_route_holds": "routes-of-several",
    "next_obstacle_is_not_waited_for": "many-things-are-in-the-way",
    "no_execute_taints_do_not_block": "particular-pods",
    "node_gone_by_hearsay": "what-a-new-leader-has-not-heard",
    "observed_in_an_earlier_term": "policy-rollout-observed-anew",
    "old_owner_not_woken": "pods-change-hands",
    "one_commit_binds_a_pod_twice": "daily-use",
    "one_dead_owner_is_enough": "owners-come-and-go",
    "orphans_from_an_old_view": "orphaned-while-servers-lag",
    "other_quota_overlooked": "judged-and-then-late",
    "own_deletes_unseen": "rollouts-seen-late",
    "owned_objects_are_called_fights": "busy-but-well",
    "page_ends_one_object_early": "read-from-long-ago",
    "patched_by_name": "named-again-in-the-middle",
    "persons_weights_undone_with_the_override": "others-cordons-and-marks",
    "pod_rejected_by_the_node_of_before": "containers-outlive-their-agent",
    "pods_before_their_node_do_not_count": "particular-pods",
    "preemptor_is_charged_twice_in_quotas": "preemption",
    "preempts_where_its_zone_is_taken": "zones-full-of-lesser-pods",
    "probe_failures_need_not_be_in_a_row": "pods-of-every-sort",
    "probe_without_waiting": "one-of-many",
    "progress_counted_from_last_transition": "slow-rollouts",
    "progress_without_others": "cluster",
    "proof_from_an_old_view": "lent-at-the-last-moment",
    "quota_begins_unnoticed": "quota-edited-elsewhere",
    "ready_pods_leave_first": "pods-change-hands",
    "recharged_pod_stays_on_the_override": "safe-recovery",
    "recommendations_age_with_the_wall_clock": "scaled-while-clocks-are-set",
    "recounted_from_an_old_cache": "quota-edited-elsewhere",
    "recreate_goes_back_beside_ending_pods": "not-all-is-well",
    "refused_for_ever": "a-scheduler-leads-again",
    "released_room_wakes_nobody": "who-waits-is-woken",
    "removed_within_its_grace": "agents-alone",
    "replicaset_status_only_with_new_counts": "ordinary-days",
    "reservation_not_renewed": "reserved-for-long",
    "reservation_of_a_waiting_pod_not_scanned": "due-when-clocks-are-set",
    "residue_waits_for_an_event": "risky-manual-response",
    "restarted_agent_takes_pods_out_of_service": "containers-outlive-their-agent",
    "restarts_without_a_pause": "agents-alone",
    "restore_over_anothers_change": "undone-among-others",
    "rollout_step_keeps_old_activation": "policy-rollout-by-two-schedulers",
    "route_status_from_an_old_view": "gateway-among-others",
    "routes_to_the_unready": "gateway-among-others",
    "runbook_deletes_the_namesake": "runs-are-watched",
    "runs_started_anew": "containers-outlive-their-agent",
    "scaling_drops_the_field_owners": "daily-use",
    "share_of_a_class_is_kept_twice": "shares-of-classes",
    "shorter_grace_period_is_ignored": "pods-of-every-sort",
    "sidecar_start_is_not_awaited": "pods-of-every-sort",
    "signals_of_the_last_leader_stay": "who-stops-is-named",
    "spared_node_is_taken_out_of_service": "a-node-that-only-the-gateway-reaches",
    "status_over_anothers": "rollouts",
    "step_patches_whatever_is_there": "half-done-runbook",
    "stop_if_of_done_steps_is_not_watched": "runs-are-watched",
    "success_let_go_too_soon": "real-jobs",
    "suspended_job_keeps_its_start": "ordinary-days",
    "timeout_is_a_refusal": "answered-with-a-timeout",
    "token_never_expires": "tokens-end",
    "token_of_a_dead_namesake": "tokens-end",
    "trouble_told_by_an_earlier_leader_stays": "trouble-outlives-its-leader",
    "two_bad_revisions_alternate": "rollouts-end",
    "two_runners": "half-done-runbook",
    "two_runners_claim_one_run": "runs-are-watched",
    "undo_learned_after_the_patch": "undone-among-others",
    "undone_before_the_late_request_arrives": "aborted-while-a-step-is-on-its-way",
    "unknown_owners_are_dead": "named-again-in-the-middle",
    "unknown_postcondition_holds": "runs-are-watched",
    "unreachable_pods_stay_ready": "a-node-comes-back",
    "untried_time_counts": "policy-rollout-that-sees-nothing",
    "victims_covered_by_budgets_first": "particular-pods",
    "wider_canary_goes_unnoticed": "policies-change-while-pods-come",
    "zero_grace_is_not_sent": "a-person-gives-pods-up",
}
SEEDS = 24
# Those that take a moment: one of each sort of scenario that was added.
NORMAL = {
    "collects_by_name",
    "epochs_begin_anew",
    "reservation_not_renewed",
    "runs_started_anew",
    "success_let_go_too_soon",
    "token_of_a_dead_namesake",
}


def is_found(scenario: str) -> bool:
    for seed in range(SEEDS):
        plan = plan_of(SCENARIOS[scenario], str(seed), ("random", "pct")[seed % 2])
        result = tell(SCENARIOS[scenario], plan)
        sweep()
        if result.violation is not None:
            return True
    return False


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in NORMAL else [pytest.mark.full]) for name in FOUND]
)
def test_a_bug_that_no_scenario_was_written_for_is_found(name: str) -> None:
    assert in_a_child(f"unseen/{name}", is_found, FOUND[name])


def unloadable() -> list[str]:
    """Loads them all into one process: each checks that the code it changes is there."""
    return [reason for file in FILES if (reason := _reason(file))]


def _reason(file: Path) -> str:
    try:
        load(file)
    except BadPatch as error:
        return str(error)
    return ""


def test_every_bug_applies_to_todays_code() -> None:
    assert in_a_child("unseen/__init__", unloadable) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_every_bug_says_what_it_is_and_in_which_room(file: Path) -> None:
    tree = ast.parse(file.read_text())
    assert ast.get_docstring(tree)
    assert [node for node in tree.body if isinstance(node, ast.Assign) and _name(node) == "ROOM"]


def test_every_bug_is_found_or_explained() -> None:
    reasons = ("WITHOUT_EFFECT = ", "NOT_FOUND_BECAUSE = ")
    explained = {file.stem for file in FILES if any(reason in file.read_text() for reason in reasons)}
    assert explained.isdisjoint(FOUND)
    assert explained | set(FOUND) == {file.stem for file in FILES}


def _name(node: ast.Assign) -> str:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
