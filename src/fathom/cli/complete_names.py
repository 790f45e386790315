"""Names for completion: of kinds and objects of the cluster, of runbooks and scenarios."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fathom.cli.api_server import ServerConnection
from fathom.cli.objects.resources import Resource, Resources
from fathom.cli.pages.completing import Slot, flag_value
from fathom.cli.places import chosen_namespace, found_kubeconfig
from fathom.cli.problem import Problem
from fathom.cli.tables import natural

if TYPE_CHECKING:
    from fathom.cli.complete import Candidate
    from fathom.cli.pages.page import CommandPage

ANSWER_S = 1.0  # A shell waits: no names are better than late ones.
NAMES_MAX = 500
# What a shell would have to quote is not offered.
PLAIN = re.compile(r"[\w.:@%+-]+")
PACKAGE = Path(__file__).parents[1]

# What the value of an argument or a flag is. A command's own line comes before that of the command that it
# belongs to, and before that of every command.
KIND_SLASH_NAME, KINDS, PODS, RUNBOOKS, SCENARIOS, NOTHING = (
    "KIND/NAME",
    "kinds",
    "pods",
    "runbooks",
    "sim",
    "",
)
SOURCES = {
    "KIND/NAME": KIND_SLASH_NAME,
    "CONTROLLER|KIND/NAME": KIND_SLASH_NAME,
    "--around": KIND_SLASH_NAME,
    "KIND|KIND/NAME": KINDS,
    "describe KIND/NAME": KINDS,
    "delete KIND/NAME": KINDS,
    "POD|KIND/NAME": PODS,
    "rollout KIND/NAME": "deployment/",
    "scale KIND/NAME": "deployment/",
    "NODE": "nodes",
    "--avoid-node": "nodes",
    "SERVICE": "services",
    "SCENARIO": SCENARIOS,
    "RUN": "runbookruns.fathom.dev",
    "runbook NAME": RUNBOOKS,
    "repair NAME": "repairproposals.fathom.dev",
    "override NAME": "scheduleroverrides.fathom.dev",
    "override create NAME": NOTHING,
    "override review NAME": "overridereviews.fathom.dev",
    "--namespace": "namespaces",
}


class _Named(msgspec.Struct):
    name: str = ""


class _Item(msgspec.Struct):
    metadata: _Named


class _Page(msgspec.Struct):
    items: list[_Item] = []


def names_for(page: CommandPage, slot: Slot, words: list[str]) -> list[Candidate]:
    """None if no API server answers, but those that fathom itself has."""
    assert slot.option is not None
    name = slot.option.names[0]
    paths = [" ".join((*page.words[:length], name)) for length in range(len(page.words), -1, -1)]
    source = next((SOURCES[path] for path in paths if path in SOURCES), NOTHING)
    if source == NOTHING:
        return []
    if source == SCENARIOS:
        return [(scenario, "") for scenario in scenario_names()]
    config = flag_value(page, words, "--kubeconfig")
    library = [(book, "of the library") for book in library_names()] if source == RUNBOOKS else []
    try:
        cluster = _Cluster(Path(config) if config else None, flag_value(page, words, "--namespace"))
        return [*library, *_names_of(cluster, source, slot)]
    except Problem:
        return library


def _names_of(cluster: _Cluster, source: str, slot: Slot) -> list[Candidate]:
    if source == PODS and "/" not in slot.typed:
        return [*cluster.names("pods"), *cluster.kinds_slash()]
    if source == KINDS:
        return cluster.kinds_or_names(slot)
    if source in {KIND_SLASH_NAME, PODS}:
        return cluster.slash(slot.typed) if "/" in slot.typed else cluster.kinds_slash()
    return cluster.slash(source) if source.endswith("/") else cluster.names(source)


class _Cluster:
    def __init__(self, kubeconfig: Path | None, namespace: str) -> None:
        self._server = ServerConnection(found_kubeconfig(kubeconfig), answer_s=ANSWER_S)
        self._namespace = chosen_namespace(namespace, kubeconfig)
        self._resources = Resources(self._server)

    def names(self, kind: str) -> list[Candidate]:
        path = f"{self._resources.find(kind).path(self._namespace)}?limit={NAMES_MAX}"
        status, raw = self._server.raw("GET", path)
        if status != 200:
            return []
        names = [item.metadata.name for item in msgspec.json.decode(raw, type=_Page).items]
        return [(name, "") for name in sorted(names, key=natural) if PLAIN.fullmatch(name)]

    def slash(self, typed: str) -> list[Candidate]:
        """'deployment/web' for 'deployment/we', with the kind as it was typed."""
        kind = typed.partition("/")[0]
        return [(f"{kind}/{name}", about) for name, about in self.names(kind)]

    def kinds_slash(self) -> list[Candidate]:
        return [(f"{each.singular or each.kind.lower()}/", each.kind) for each in self._listed()]

    def kinds_or_names(self, slot: Slot) -> list[Candidate]:
        """`get pods web-1`, `get pod/web-1`: first a kind, then names."""
        if "/" in slot.typed:
            return self.slash(slot.typed)
        if slot.before and "/" not in slot.before[0]:
            return [each for each in self.names(slot.before[0]) if each[0] not in slot.before]
        if slot.before:
            return self.kinds_slash()
        return [(each.plural, each.kind) for each in self._listed()]

    def _listed(self) -> list[Resource]:
        """Those with objects; of several groups with the same kind, the first."""
        named = {each.plural: each for each in reversed(self._resources.listed) if "list" in each.verbs}
        return sorted(
            (each for each in named.values() if PLAIN.fullmatch(each.plural)), key=lambda each: each.plural
        )


def library_names() -> list[str]:
    return sorted(file.stem for file in (PACKAGE / "steer" / "library").glob("*.yaml"))


def scenario_names() -> list[str]:
    """Read, not imported: importing the simulator takes half a second."""
    sources = [file.read_text() for file in (PACKAGE / "sim" / "scenarios").glob("*.py")]
    marked = re.compile(r"^@scenario\b[^\n]*(?:\n[^\n]*?)*?\nasync def (\w+)", re.MULTILINE)
    return sorted(name.strip("_").replace("_", "-") for source in sources for name in marked.findall(source))
