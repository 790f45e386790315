"""Changes of objects that a user named: read, patched, printed as kubectl prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from fathom.cli.api_server import ServerConnection
from fathom.cli.documents import print_documents
from fathom.cli.objects.answers import done
from fathom.cli.objects.options import named_objects
from fathom.cli.objects.override_notes import say_overrides, shown
from fathom.cli.objects.resources import NamedObject, Resources
from fathom.cli.output import output_parameter
from fathom.cli.places import chosen_namespace, found_kubeconfig
from fathom.cli.problem import Problem
from fathom.model.media_types import MERGE_PATCH
from fathom.terminal import say

Obj = dict[str, Any]
DryRun = Annotated[Literal["none", "server"], Parameter(help="server: check everything, and change nothing.")]
Output = Annotated[str, output_parameter("json", "yaml", "name", help="Print the changed objects.")]


class ObjectChanges:
    """Changes objects at one server, and prints a line or a document for each."""

    def __init__(
        self, kubeconfig: Path | None, *, namespace: str, dry_run: str = "none", output: str = ""
    ) -> None:
        """Raises Problem."""
        self.server = ServerConnection(found_kubeconfig(kubeconfig))
        self.resources = Resources(self.server)
        self._namespace = chosen_namespace(namespace, kubeconfig)
        self._is_dry, self._output = dry_run == "server", output

    def named(self, words: Sequence[str]) -> Iterator[NamedObject]:
        """Raises Problem if a kind is named without objects."""
        for named in named_objects(words, self.resources):
            if not named.names:
                raise Problem(
                    f"name the objects of the kind {named.resource.full_name} that are to be changed"
                )
            for name in named.names:
                yield NamedObject(named.resource, self._namespace, name)

    def read(self, target: NamedObject, subresource: str = "") -> Obj:
        """Raises Problem."""
        path = target.path(subresource)
        return done(*self.server.request("GET", path), path)

    def patch(
        self, target: NamedObject, patch: Any, *, media: str = MERGE_PATCH, subresource: str = ""
    ) -> Obj:
        """The object as it is then. Raises Problem."""
        path = target.path(subresource)
        asked = f"{path}?fieldManager=fathom{'&dryRun=All' if self._is_dry else ''}"
        return done(*self.server.request("PATCH", asked, patch, media=media), path)

    def create(self, target: NamedObject, obj: Obj) -> Obj:
        """Raises Problem."""
        path = target.resource.path(target.namespace)
        asked = f"{path}?fieldValidation=Strict&fieldManager=fathom{'&dryRun=All' if self._is_dry else ''}"
        return done(*self.server.request("POST", asked, obj), path)

    def report(self, target: NamedObject, changed: Obj, word: str) -> None:
        """A line such as 'node/node-1 tainted', or the object as a document."""
        say(*(f"Warning: {warning}" for warning in self.server.warnings), err=True)
        if self._output:
            print_documents([changed], self._output)
        else:
            say(f"{target.label} {word}{' (server dry run)' if self._is_dry else ''}")

    def say_overrides(self, target: NamedObject, obj: Obj) -> None:
        """Which overrides hold what was changed."""
        say_overrides(self.server, [shown(target, obj)], namespace=self._namespace)


def is_same(before: Obj, after: Obj) -> bool:
    """Whether a write changed nothing. A dry run changes no revision, whatever it would do."""
    return _content(before) == _content(after)


def _content(obj: Obj) -> Obj:
    meta = obj.get("metadata") or {}
    kept = {name: value for name, value in meta.items() if name not in {"managedFields", "resourceVersion"}}
    return {**obj, "metadata": kept}


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Objects, and what is to be changed: 'node node-1 a=1 b-' has two of each. Names of objects have no '='
    and end with no '-'."""
    changes = [word for word in words if _is_change(word)]
    return [word for word in words if not _is_change(word)], changes


def _is_change(word: str) -> bool:
    return "=" in word or word.endswith("-")
