"""What the commands of `fathom override` do: read, show, ask, write, wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fathom.cli.ask.explanations import OWN_KINDS, ApiServer
from fathom.cli.confirmation import Place, confirm, place_of, require_terminal
from fathom.cli.documents import name_of, print_documents
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.steer.override_arguments import check_later, other_spelling
from fathom.cli.steer.override_text import (
    approval_lines,
    confirmation_lines,
    holds_proof,
    list_rows,
    no_match_lines,
    override_of,
    residue_lines,
    show_lines,
)
from fathom.cli.steer.own_objects import OwnKind, OwnObjects
from fathom.cli.steer.preview_check import check_preview
from fathom.cli.tables import say_table
from fathom.kinds.override_changes import INFRASTRUCTURE_TARGETS
from fathom.kinds.override_policy import AUTHOR
from fathom.kinds.override_summary import (
    DEGRADED,
    DEGRADED_CONDITION,
    ENDED,
    ENDING,
    LAPSED,
    REFUSED,
    RESIDUE,
    ack_counts,
    acknowledgements_of,
    proof_of,
    state_of,
    waits_for_approval,
)
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.terminal import say

if TYPE_CHECKING:
    from pathlib import Path

Obj = dict[str, Any]

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SELF_REVIEW: Obj = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
OVERRIDES = OwnKind("SchedulerOverride", "scheduleroverrides", "fathom override list")


class Overrides:
    """The overrides of the cluster that the kubeconfig names."""

    def __init__(self, kubeconfig: Path | None) -> None:
        """Raises Problem."""
        self.place: Place = place_of(kubeconfig)
        self.server = ApiServer(kubeconfig)
        self.objects = OwnObjects(self.server, OVERRIDES)
        self._warned: set[str] = set()  # Warnings that were shown, also of a dry run: each is shown once.

    def namespace(self, given: str) -> str:
        return given or self.place.namespace or "default"

    # Reading.

    def print_list(self, namespace: str, output: str, *, everywhere: bool) -> int:
        where = "" if everywhere else self.namespace(namespace)
        objs = self.objects.list(where)
        if output in {"yaml", "json", "name"}:
            print_documents(objs, output, as_list=True)
        elif objs:
            wide = output == "wide"
            say_table(list_rows(objs, now_ns=now_ns(), with_namespace=everywhere, wide=wide))
        else:
            say(f"there are no overrides{f' in namespace {where}' if where else ''}", err=True)
        return 0

    def show(self, namespace: str, name: str, output: str) -> int:
        obj = self.objects.get(self.namespace(namespace), name)
        if output:
            print_documents([obj], output)
        else:
            say(*show_lines(obj, now_ns=now_ns()))
        return 0

    # Writing.

    def create(self, obj: Obj, *, from_preview: str, dry_run: str, output: str, yes: bool) -> Obj:
        """The object as it was created, or as it would be."""
        namespace = obj["metadata"]["namespace"]
        if dry_run == "client":
            self._print_written(obj, "created", output, dry_run=dry_run)
            return obj
        if from_preview:
            check_preview(self.server, namespace, obj, from_preview)
        if dry_run == "server":
            created = self.objects.create(namespace, self._signed(obj), dry_run=True)
        else:
            self._ask(
                lambda: self.objects.create(namespace, self._signed(obj), dry_run=True), "Create", yes=yes
            )
            created = self.objects.create(namespace, self._signed(obj))
        self._warn()
        self._print_written(created, "created", output, dry_run=dry_run)
        return created

    def _signed(self, obj: Obj) -> Obj:
        """With its author's name, where no server of fathom's stamps it: a policy there asks for it."""
        try:
            status, group = self.server.request("GET", OWN_KINDS)
        except Problem:  # The request that follows says what is wrong.
            return obj
        kinds = {str(each.get("name")) for each in group.get("resources") or ()}
        if status != 200 or "explanations" in kinds:
            return obj
        _, review = self.server.request("POST", WHO_AM_I, SELF_REVIEW)
        user = ((review.get("status") or {}).get("userInfo") or {}).get("username")
        meta = obj["metadata"]
        notes = {**({AUTHOR: user} if user else {}), **(meta.get("annotations") or {})}
        return {**obj, "metadata": {**meta, "annotations": notes}} if notes else obj

    def extend(self, namespace: str, name: str, *, lasts: str, reason: str, yes: bool) -> Obj:
        namespace = self.namespace(namespace)
        obj = self.objects.get(namespace, name)
        spec = obj.get("spec") or {}
        check_later(override_of(obj), lasts, now_ns())
        duration = other_spelling(lasts, str(spec.get("expiresAfter")))
        patch = {"spec": {"expiresAfter": duration, "reason": reason}}
        self._ask(lambda: self.objects.patch(namespace, obj, patch, dry_run=True), "Extend", yes=yes)
        extended = self.objects.patch_same_spec(namespace, obj, patch)
        self._warn()
        until = override_of(extended).status.expires_at
        say(f"{name_of(extended)} extended{f': it ends at {until}' if until else ''}")
        return extended

    def decide(self, namespace: str, name: str, *, approved: bool, yes: bool) -> Obj:
        """Approve or refuse the spec that is shown, and no other."""
        namespace = self.namespace(namespace)
        obj = self.objects.get(namespace, name)
        approval = override_of(obj).status.approval
        if approval is None or not approval.required:
            raise Problem(
                f"override {namespace}/{name} needs no approval: nothing was changed", exit_code=ANSWER_IS_NO
            )
        if not yes:
            require_terminal()
        say(*approval_lines(obj, place=str(self.place), now_ns=now_ns()), err=True)
        confirm(f"{'Approve' if approved else 'Refuse'} this override?", yes=yes)
        spec_hash = {"specHash": approval.spec_hash} if approval.spec_hash else {}
        patch = {"status": {"approval": {"approved": approved, **spec_hash}}}
        decided = self.objects.patch_same_spec(namespace, obj, patch, subresource="approval")
        self._warn()
        written = override_of(decided).status.approval
        by = f" by {written.approver}" if written is not None and written.approver else ""
        say(f"{name_of(decided)} {'approved' if approved else 'refused'}{by}")
        return decided

    def end(self, namespace: str, name: str, *, yes: bool) -> tuple[Obj, bool]:
        """The object as it was, and whether it is still there, held by its residue proof."""
        namespace = self.namespace(namespace)
        obj = self.objects.get(namespace, name)
        if not yes:
            require_terminal()
            say(f"context {self.place}", *show_lines(obj, now_ns=now_ns()), err=True)
        confirm("End this override now?", yes=yes)
        answer = self.objects.delete(namespace, obj)
        self._warn()
        is_held = bool((answer.get("metadata") or {}).get("deletionTimestamp"))
        return obj, is_held

    # Waiting.

    def wait_for_acknowledgements(self, obj: Obj, *, seconds: float, quiet: bool = False) -> int:
        """Until every affected controller has acknowledged it; the exit code. `quiet`: stdout is a
        document."""
        shown = ""
        last = obj
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        for state in self.objects.states(namespace, name, seconds=seconds):
            if state is None:
                raise Problem(f"override {namespace}/{name} was deleted meanwhile", exit_code=ANSWER_IS_NO)
            last = state
            _check_not_over(state)
            line = waiting_text(state)
            if not line:
                return _tell_outcome(state, quiet=quiet)
            if line != shown:
                say(line, err=True)
                shown = line
        raise Problem(
            f"after {seconds:g} s: {waiting_text(last)}; see `fathom override show {name} -n {namespace}`",
            exit_code=ANSWER_IS_NO,
        )

    def wait_for_proof(self, obj: Obj, *, seconds: float) -> int:
        """Until the override controller has proven what is left, or the override is gone; the exit code."""
        last, proven = obj, holds_proof(obj)
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        for state in self.objects.states(namespace, name, seconds=seconds):
            if state is None:
                return _tell_residue(last, proven=proven)
            last, proven = state, proven or holds_proof(state)
            proof = proof_of(override_of(state))
            if proof is not None and (proof.status == "True" or proof.reason == RESIDUE):
                return _tell_residue(state, proven=True)
        if override_of(last).status.residue:
            return _tell_residue(last, proven=proven)
        raise Problem(
            f"after {seconds:g} s there is no proof yet that nothing is left of override {namespace}/{name}:"
            f" see `fathom override show {name} -n {namespace}`",
            exit_code=ANSWER_IS_NO,
        )

    # Output.

    def _ask(self, dry_run: Callable[[], Obj], verb: str, *, yes: bool) -> None:
        """Show what a dry run on the server answers, and ask."""
        if yes:
            return
        require_terminal()
        planned = dry_run()
        lines = confirmation_lines(
            planned, place=str(self.place), now_ns=now_ns(), warnings=self.server.warnings
        )
        say(*lines, err=True)
        self._warned.update(self.server.warnings)
        confirm(f"{verb} this override?", yes=False)

    def _warn(self) -> None:
        new = [text for text in self.server.warnings if text not in self._warned]
        self._warned.update(new)
        say(*(f"Warning: {text}" for text in new), err=True)

    def _print_written(self, obj: Obj, verb: str, output: str, *, dry_run: str) -> None:
        if output:
            print_documents([obj], output)
            return
        note = {"client": " (dry run)", "server": " (server dry run)"}.get(dry_run, "")
        say(f"{name_of(obj)} {verb}{note}")
        if dry_run == "none" and waits_for_approval(override_of(obj)):
            meta = obj["metadata"]
            say(
                "it is not in force yet: somebody else must approve it with"
                f" `fathom override approve {meta['name']} -n {meta['namespace']}`",
                err=True,
            )
        elif dry_run == "server":
            say(*confirmation_lines(obj, place=str(self.place), now_ns=now_ns()))


def waiting_text(obj: Obj) -> str:
    """What is still missing until the override is in force; '' if nothing is."""
    override = override_of(obj)
    if waits_for_approval(override):
        return "waiting for approval"
    acks = ack_counts(override)
    if acks.declined or not acks.missing:
        return ""
    return f"waiting for {', '.join(acks.missing)} ({acks} have acknowledged it)"


def _check_not_over(obj: Obj) -> None:
    """Raises Problem if waiting is in vain."""
    override = override_of(obj)
    state = state_of(override, now_ns())
    if state not in {REFUSED, LAPSED, ENDED, ENDING, RESIDUE}:
        return
    approval = override.status.approval
    by = f" by {approval.approver}" if state == REFUSED and approval is not None else ""
    name = f"{override.metadata.namespace}/{override.metadata.name}"
    raise Problem(f"override {name} will not be in force: {state}{by}", exit_code=ANSWER_IS_NO)


def _reasons(override: SchedulerOverride, controller: str) -> str:
    """Of several schedulers, each may have its own."""
    reasons = [each.reason for each in acknowledgements_of(override, controller) if each.reason]
    return ", ".join(dict.fromkeys(reasons)) or "no reason given"


def _tell_outcome(obj: Obj, *, quiet: bool) -> int:
    override = override_of(obj)
    acks = ack_counts(override)
    name = f"override {override.metadata.namespace}/{override.metadata.name}"
    if acks.declined:
        declined = ", ".join(f"{who} ({_reasons(override, who)})" for who in acks.declined)
        raise Problem(f"{name} was declined by {declined}", exit_code=ANSWER_IS_NO)
    state = state_of(override, now_ns())
    if state == DEGRADED:
        why = [each.message for each in override.status.conditions if each.type == DEGRADED_CONDITION]
        raise Problem(f"{name} is {state}: {''.join(why)}", exit_code=ANSWER_IS_NO)
    say(f"{name}: {state}, acknowledged by {', '.join(acks.honoring)}", err=quiet)
    say(*(f"Warning: {line}" for line in no_match_lines(obj)), err=True)
    return 0


def _tell_residue(obj: Obj, *, proven: bool) -> int:
    say(*residue_lines(obj, proven=proven))
    return 0 if proven and not override_of(obj).status.residue else ANSWER_IS_NO


def namespace_for(target: str, *, given: str, in_file: str, of_context: str) -> str:
    """Nodes, zones and pools have no namespace: their overrides are in fathom's own. Raises Problem."""
    if given and in_file and given != in_file:
        raise Problem(f"the object is for namespace {in_file}, but --namespace is {given}")
    if given or in_file:
        return given or in_file
    if target.partition("/")[0] in INFRASTRUCTURE_TARGETS:
        return SYSTEM_NAMESPACE
    return of_context or "default"


def now_ns() -> int:
    return time.time_ns()
