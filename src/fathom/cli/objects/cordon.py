"""`fathom cordon` and `fathom uncordon`: whether a node takes new pods."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from fathom.cli.api_server import ServerConnection
from fathom.cli.objects.answers import done
from fathom.cli.objects.override_notes import NODE_OVERRIDES, Shown, say_overrides
from fathom.cli.places import Kubeconfig, found_kubeconfig
from fathom.cli.problem import Problem
from fathom.model.media_types import MERGE_PATCH
from fathom.terminal import say

Nodes = Annotated[str, Parameter(name="NODE", help="Nodes: node-1 node-2")]


def cordon(*nodes: Nodes, kubeconfig: Kubeconfig = None) -> int:
    """Let nodes take no new pods, until `uncordon`. For a while and with a reason, make an override instead:
    it ends by itself.

    Prints a line for each node.

    fathom cordon node-1
    fathom cordon node-1 node-2
    """
    return _set(nodes, kubeconfig, unschedulable=True)


def uncordon(*nodes: Nodes, kubeconfig: Kubeconfig = None) -> int:
    """Let nodes take new pods again.

    Prints a line for each node.

    fathom uncordon node-1
    fathom uncordon node-1 node-2
    """
    return _set(nodes, kubeconfig, unschedulable=False)


def _set(nodes: tuple[str, ...], kubeconfig: Kubeconfig, *, unschedulable: bool) -> int:
    if not nodes:
        raise Problem("name a node, for example node-1; list them with `fathom get nodes`")
    server = ServerConnection(found_kubeconfig(kubeconfig))
    word = "cordoned" if unschedulable else "uncordoned"
    for node in nodes:
        path = f"/api/v1/nodes/{node.removeprefix('node/')}"
        there = done(*server.request("GET", path), path)
        label = f"node/{there['metadata']['name']}"
        if bool((there.get("spec") or {}).get("unschedulable")) == unschedulable:
            say(f"{label} already {word}")
        else:
            patch = {"spec": {"unschedulable": True if unschedulable else None}}
            done(*server.request("PATCH", path, patch, media=MERGE_PATCH), path)
            say(f"{label} {word}")
        say_overrides(server, [Shown("Node", label, there)], namespace=NODE_OVERRIDES)
    return 0
