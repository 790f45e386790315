"""Every command: where it is, and what it does in a line. `fathom --help` loads nothing else."""

from __future__ import annotations

import msgspec


class Command(msgspec.Struct, frozen=True):
    name: str
    where: str  # Its function, or its own commands. Only the one that runs is imported.
    summary: str


GROUPS: dict[str, tuple[Command, ...]] = {
    "Ask": (
        Command("why", "fathom.cli.ask.why:why", "Why objects are as they are, and what would help"),
        Command("status", "fathom.cli.ask.status:status", "What the control plane knows about a workload"),
        Command("top", "fathom.cli.ask.top.command:top", "What is stuck, nodes, overrides and fights, live"),
        Command("timeline", "fathom.cli.ask.timeline:timeline", "What happened, and what caused what"),
        Command("page", "fathom.cli.ask.page:app", "A link to the web page, and its sessions"),
        Command("coupling", "fathom.cli.ask.coupling:coupling", "Who can change the inputs of a decision"),
        Command("decisions", "fathom.cli.ask.why:decisions", "Recorded decisions and their outcomes"),
        Command("mcp", "fathom.mcp.command:mcp", "The same questions as tools for assistants (MCP)"),
    ),
    "Steer": (
        Command(
            "override", "fathom.cli.steer.override:app", "Changes for a while: bounded, acknowledged, undone"
        ),
        Command("runbook", "fathom.cli.steer.runbook:app", "Procedures with conditions, steps and a record"),
        Command("repair", "fathom.cli.steer.repair:app", "List, approve or refuse what repair proposes"),
    ),
    "Objects, as with kubectl": (
        Command("get", "fathom.cli.objects.get:get", "Objects, as a table or as documents"),
        Command(
            "describe",
            "fathom.cli.objects.describe:describe",
            "Describe objects, with their causes and Events",
        ),
        Command("apply", "fathom.cli.objects.apply:apply", "Make objects as files declare them"),
        Command("create", "fathom.cli.objects.create:app", "Create objects from files or flags"),
        Command("delete", "fathom.cli.objects.delete:delete", "Delete objects, and wait until they are gone"),
        Command("edit", "fathom.cli.objects.edit:edit", "Change objects in an editor"),
        Command("patch", "fathom.cli.objects.patch:patch", "Change fields of objects"),
        Command("replace", "fathom.cli.objects.replace:replace", "Make objects exactly as files have them"),
        Command("set", "fathom.cli.objects.set_fields:app", "Set images and resources of containers"),
        Command("annotate", "fathom.cli.objects.notes:annotate", "Set or remove annotations"),
        Command("label", "fathom.cli.objects.notes:label", "Set or remove labels"),
        Command("taint", "fathom.cli.objects.taint:taint", "Set or remove taints of nodes"),
        Command("logs", "fathom.cli.objects.logs:logs", "What containers have written"),
        Command("exec", "fathom.cli.objects.exec:exec_", "Run a command in a container"),
        Command("cp", "fathom.cli.objects.cp:cp", "Copy files to and from containers"),
        Command(
            "port-forward", "fathom.cli.objects.port_forward:port_forward", "Reach ports of a pod from here"
        ),
        Command("scale", "fathom.cli.objects.scale:scale", "Set the number of replicas"),
        Command("rollout", "fathom.cli.objects.rollout:app", "Follow, undo, restart or pause rollouts"),
        Command("cordon", "fathom.cli.objects.cordon:cordon", "Let nodes take no new pods"),
        Command("uncordon", "fathom.cli.objects.cordon:uncordon", "Let nodes take new pods again"),
    ),
    "Record and simulate": (
        Command("record", "fathom.cli.simulate.record:app", "List, keep and export recordings"),
        Command(
            "replay", "fathom.cli.simulate.replay:replay", "Replay a tape, an incident or a simulated run"
        ),
        Command(
            "sim", "fathom.cli.simulate.sim:app", "Run the control plane in a simulator that injects faults"
        ),
        Command("chaos", "fathom.cli.simulate.chaos:chaos", "Run any operator while its API server fails it"),
        Command(
            "bench",
            "fathom.cli.simulate.bench:app",
            "Benchmarks of API servers, schedulers, caches, clusters",
        ),
    ),
    "Run a cluster": (
        Command("up", "fathom.cli.cluster.up:up", "Start a cluster on this machine"),
        Command("down", "fathom.cli.cluster.down:down", "End it, its pods too"),
        Command(
            "attach", "fathom.cli.cluster.attach:attach", "Observe, or schedule for, an existing Kubernetes"
        ),
        Command("detach", "fathom.cli.cluster.attach:detach", "Remove what `attach` left there"),
        Command(
            "demo", "fathom.cli.cluster.demo:app", "Tell an incident on a live cluster, command by command"
        ),
        Command("doctor", "fathom.cli.cluster.doctor:doctor", "Check whether this machine can run a cluster"),
        Command(
            "kubeconfig",
            "fathom.cli.cluster.kubeconfig:kubeconfig",
            "Print the kubeconfig of a data directory",
        ),
        Command("serve", "fathom.cli.cluster.serve:app", "Run one process of the control plane"),
        Command("store", "fathom.cli.cluster.store:app", "Back up, restore, verify and migrate stores"),
        Command("docs", "fathom.cli.cluster.docs:docs", "Serve the documentation as a site on this machine"),
    ),
}
OWN_COMMANDS = (
    Command(
        "completion", "fathom.cli.completion:completion", "Print a script by which a shell completes commands"
    ),
    Command("man", "fathom.cli.man:man", "Write the man pages of all commands"),
    Command("version", "fathom.cli.version:version", "The versions of fathom and Python"),
)
EXAMPLES = (
    ("fathom why", "whatever is stuck in the cluster, and what would help"),
    ("fathom demo risk-api", "an incident on a cluster of its own, step by step"),
)
ABOUT = "A scheduler control plane for the Kubernetes API that explains, replays and steers its decisions."
FRONT_PAGE = {**GROUPS, "Other": OWN_COMMANDS}
COMMANDS = {command.name: command.where for group in FRONT_PAGE.values() for command in group}


def front_page(width: int) -> list[str]:
    """The page of `fathom --help`."""
    from fathom.cli.pages.help_text import DEBUG, WIDTH_MAX, columns  # noqa: PLC0415  # Only help needs it.
    from fathom.terminal import wrapped  # noqa: PLC0415

    width, column = min(width, WIDTH_MAX), max(map(len, COMMANDS)) + 2
    lines = ["Usage: fathom COMMAND", "", *wrapped(ABOUT, width)]
    for title, commands in FRONT_PAGE.items():
        lines += ["", title, *columns([(each.name, each.summary) for each in commands], width, column)]
    more = f"fathom COMMAND --help says more. {DEBUG}"
    return [*lines, "", "Examples", *columns(list(EXAMPLES), width), "", *wrapped(more, width)]
