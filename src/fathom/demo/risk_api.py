"""The incident: a rollout of risk-api meets a zone that takes no pods. The surface stays green."""

from __future__ import annotations

from fathom.demo.steps import Act, Step

ZONES = "eu-west-a,eu-west-b,eu-west-c"
RUN = "recovery-1"
RUNBOOK = "recover-workload-from-stale-zone"
WAITING = "$(fathom get pods --field-selector status.phase=Pending -o name)"
WORKLOAD_PAGE = "#/workload/default/Deployment/risk-api"
RUN_PAGE = f"#/runbooks/default/{RUN}"
VALUES = "--set workload=risk-api --set region=eu-west --set zone=eu-west-a"

STORY = (
    Act(
        "A rollout",
        (
            Step(
                text="Three nodes in three zones. node-3 is kept free for recoveries.",
                command="fathom apply -f capacity.yaml",
                says=("capacityclass.fathom.dev/recovery created",),
            ),
            Step(
                text="risk-api, version 1: two replicas, a Service and an autoscaler.",
                command="fathom apply -f risk-api-v1.yaml",
                says=("deployment.apps/risk-api created", "service/risk-api created"),
            ),
            Step(
                text="Both replicas become ready.",
                command="fathom rollout status deployment/risk-api --timeout=60s",
                page=WORKLOAD_PAGE,
                says=('deployment "risk-api" successfully rolled out',),
            ),
            Step(
                text="Somebody cordons node-1, for work in zone eu-west-a, and tells nobody.",
                command="fathom cordon node-1",
                page="#/now",
                says=("node/node-1 cordoned",),
            ),
            Step(
                text="Version 2 is rolled out.",
                command="fathom apply -f risk-api-v2.yaml",
                page=WORKLOAD_PAGE,
                says=("deployment.apps/risk-api configured",),
            ),
        ),
    ),
    Act(
        "A green surface",
        (
            Step(
                text="The rollout does not end.",
                command="fathom rollout status deployment/risk-api --timeout=12s",
                page="#/now",
                exit_code=1,
                says=("the rollout is not done after 12s",),
            ),
            Step(
                text="Yet whoever looks from outside sees nothing: every request is answered.",
                command="fathom demo requests risk-api",
                says=("40 of 40 requests were answered",),
            ),
            Step(
                text="Inside, a replica is missing.",
                command="fathom get workloadprogress",
                page=WORKLOAD_PAGE,
                says=("deployment-risk-api",),
            ),
        ),
    ),
    Act(
        "Why",
        (
            Step(
                text="What is stuck, why, and what to type? (It exits with 1: not all is as wanted.)",
                command="fathom why",
                page="#/now",
                exit_code=1,
                says=("risk-api",),
                tries_s=60.0,
            ),
            Step(
                text="The whole answer, about the pod that waits: each node's reason, other changes that"
                " would do and who may make them, and the revisions that it was decided from.",
                command=f"fathom why {WAITING}",
                page=WORKLOAD_PAGE,
                exit_code=1,
                says=("is not scheduled", "uncordon node-1", "revisions used"),
            ),
            Step(
                text="What if somebody uncordoned node-1? The same decider answers for the changed cluster.",
                command=f'fathom why {WAITING} --what-if \'node/node-1={{"spec":{{"unschedulable":null}}}}\'',
                exit_code=1,
                says=("it fits node-1",),
            ),
            Step(
                text="What happened, in order, and what caused what?",
                command="fathom timeline deployment/risk-api --since 1m | grep -B 3 -A 16 'finds no node'",
                page=WORKLOAD_PAGE,
                says=("decides to", "because of", "finds no node"),
            ),
            Step(
                text="Who else can change what these decisions depend on?",
                command="fathom coupling deployment/risk-api:spec.replicas",
                page="#/coupling",
                says=("spec.replicas",),
            ),
        ),
    ),
    Act(
        "A fix that ends by itself",
        (
            Step(
                text="A runbook of the library. First what it would do, in forks of this cluster: with the"
                " override, and without.",
                command=f"fathom runbook plan {RUNBOOK} {VALUES}",
                page="#/runbooks",
                says=("of the cluster at revision",),
            ),
            Step(
                text="Carry it out. It waits where a person has to judge (exit code 1).",
                command=f"fathom runbook run {RUNBOOK} {VALUES} --name {RUN} --yes --answer confirm=yes",
                page=RUN_PAGE,
                exit_code=1,
                says=("Waiting: step normal waits",),
            ),
            Step(
                text="The override: who made it, until when, who honours it.",
                command="fathom override list",
                page="#/overrides",
                says=(RUN, "3/3 Active"),
            ),
            Step(
                text="Both replicas are ready, one of them on the node for recoveries.",
                command="fathom get pods -o wide",
                page=WORKLOAD_PAGE,
                says=("node-3",),
            ),
        ),
    ),
    Act(
        "Recovery, and the proof that nothing remains",
        (
            Step(
                text="The work in the zone is done.",
                command="fathom uncordon node-1",
                page="#/now",
                says=("node/node-1 uncordoned",),
            ),
            Step(
                text="The runbook goes on: it ends the override, moves the replica back, checks that nothing"
                " is left of it, and watches for half a minute that normal control works.",
                command=f"fathom runbook resume {RUN} --answer normal=yes --yes",
                page=RUN_PAGE,
                says=("override-gone is True", "no-pod-uses-the-override is True", "Succeeded"),
            ),
            Step(
                text="The end of the report, from which a post-mortem can be written.",
                command=f"fathom runbook report {RUN} | sed -n '/Postconditions/,$p'",
                page=RUN_PAGE,
                says=(
                    "| normal-control-works | True |",
                    "The audit log confirms every write of the run.",
                ),
            ),
            Step(
                text="All is well.",
                command="fathom why deployment/risk-api",
                page="#/now",
                says=("has all 2 replicas ready",),
                tries_s=60.0,
            ),
        ),
    ),
    Act(
        "Take the incident home",
        (
            Step(
                text="Everything about it in one file: inputs, decisions, audit, state.",
                command="fathom record export risk-api.incident --around deployment/risk-api --window 10m",
                page="#/record",
                says=("tapes: controllers run 1",),
            ),
            Step(
                text="The same inputs through the same code: is every decision and every request the same?",
                command="fathom replay risk-api.incident",
                says=("controllers run 1: reproduced", "scheduler run 1: reproduced"),
            ),
        ),
    ),
)
