"""Every tool: its name, what it answers, its arguments, and the function that answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fathom.mcp import arguments as given
from fathom.mcp import proposals, questions
from fathom.mcp.caller import Caller
from fathom.mcp.marked import Answer


class Tool(msgspec.Struct, frozen=True):
    name: str
    about: str
    arguments: type[given.Arguments]
    answer: Callable[[Caller, Any], Answer]
    proposes: bool = False


TOOLS: tuple[Tool, ...] = (
    Tool(
        "why",
        "Why an object is as it is (why a pod is pending, why a rollout does not go on), with the evidence"
        " and the smallest change that would help.",
        given.Why,
        questions.why,
    ),
    Tool(
        "list_stuck",
        "Whatever is stuck in a namespace, or in the cluster, the worst first. Begin with it where no object"
        " is named.",
        given.Stuck,
        questions.list_stuck,
    ),
    Tool(
        "what_if",
        "The answer of why, as if objects were changed. Nothing is written.",
        given.WhatIf,
        questions.what_if,
    ),
    Tool(
        "status",
        "What the control plane knows about a workload: generation, pending replicas, the last scheduling"
        " reason, how old the data was, autoscaler, repair.",
        given.Status,
        questions.status,
    ),
    Tool(
        "timeline",
        "What happened to an object and around it, by whom, and what caused what.",
        given.Timeline,
        questions.timeline,
    ),
    Tool(
        "coupling",
        "Who can change the inputs of a controller's decisions without calling it, or who writes a field.",
        given.Coupling,
        questions.coupling,
    ),
    Tool(
        "decisions",
        "Recorded decisions of the scheduler and the controllers, and what came of them.",
        given.Decisions,
        questions.decisions,
    ),
    Tool(
        "overrides",
        "Overrides in force or waiting: list them, or show one.",
        given.Overrides,
        questions.overrides,
    ),
    Tool(
        "preview_override",
        "What an override would do: it is tried in forks of the cluster. Nothing is written. It takes some 15"
        " seconds.",
        given.PreviewOverride,
        questions.preview_override,
    ),
    Tool(
        "runbooks",
        "Procedures for incidents: list them, or show what one checks and does.",
        given.Runbooks,
        questions.runbooks,
    ),
    Tool(
        "runbook_plan",
        "What a runbook would do with these parameters, and whether its preconditions hold now. Nothing is"
        " written.",
        given.RunbookPlan,
        questions.runbook_plan,
    ),
    Tool(
        "runbook_runs",
        "Runs of runbooks: list them, or show the record of one.",
        given.Runs,
        questions.runbook_runs,
    ),
    Tool(
        "propose_override",
        "Propose an override. Nothing is in force before a person other than the caller has approved it at a"
        " terminal; preview it first.",
        given.Override,
        proposals.propose_override,
        proposes=True,
    ),
    Tool(
        "propose_runbook",
        "Propose a run of a runbook. Nobody can carry it out before a person other than the caller has"
        " approved it at a terminal; plan it first.",
        given.ProposeRunbook,
        proposals.propose_runbook,
        proposes=True,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
