"""`fathom edit`: change an object in an editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fathom.cli.api_server import Refused
from fathom.cli.documents import as_yaml, without_managed_fields
from fathom.cli.objects.changes import ObjectChanges
from fathom.cli.objects.manifests import content_of
from fathom.cli.objects.resources import NamedObject
from fathom.cli.places import Kubeconfig, Namespace
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.kube.patch.three_way import three_way_patch
from fathom.model.media_types import MERGE_PATCH
from fathom.terminal import say

Obj = dict[str, Any]

HEAD = """\
# Change the object, save, and leave the editor. Lines that begin with '#' are not read; an empty file changes
# nothing. If the API server refuses the change, what you wrote is kept.
#
"""


def edit(
    *what: Annotated[str, Parameter(help="Objects: deployment/web")],
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Change objects in $KUBE_EDITOR, else $EDITOR, else vi. Only the fields that you change are written.

    Prints a line for each object: edited, or that nothing was changed.

    fathom edit deployment/web
    fathom edit configmap/settings -n shop
    """
    changes = ObjectChanges(kubeconfig, namespace=namespace)
    for target in changes.named(what):
        _edit(changes, target)
    return 0


def _edit(changes: ObjectChanges, target: NamedObject) -> None:
    before = without_managed_fields(changes.read(target))
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"fathom-edit-{target.name[:40]}-", suffix=".yaml", delete=False, encoding="utf-8"
    ) as file:
        file.write(HEAD + as_yaml(before))
    path = Path(file.name)
    patch = _changed_fields(before, path)
    if not patch:
        path.unlink()
        say("Edit cancelled, no changes made.")
        return
    try:
        after = changes.patch(target, patch, media=MERGE_PATCH)
    except Refused as refused:
        raise Problem(f"{refused}; what you wrote is in {path}", exit_code=ANSWER_IS_NO) from refused
    path.unlink()
    changes.report(target, after, "edited")


def _changed_fields(before: Obj, path: Path) -> Obj:
    """As a merge patch, with the revision that was edited: another writer's change is not lost. Raises
    Problem."""
    _run_editor(path)
    text = path.read_bytes()
    if not any(line.strip() and not line.lstrip().startswith(b"#") for line in text.splitlines()):
        return {}
    after = content_of(text, f"what you wrote in {path}")
    if not isinstance(after, dict):
        raise Problem(f"what you wrote in {path} is no object: nothing was changed")
    patch = three_way_patch(before, after, before, None)
    revision = {"resourceVersion": before["metadata"]["resourceVersion"]}
    return {**patch, "metadata": {**(patch.get("metadata") or {}), **revision}} if patch else {}


def _run_editor(path: Path) -> None:
    editor = os.environ.get("KUBE_EDITOR") or os.environ.get("EDITOR") or "vi"
    try:
        code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
    except OSError as error:
        raise Problem(f"the editor {editor!r} cannot be started: set EDITOR to another") from error
    if code:
        raise Problem(f"the editor {editor!r} ended with {code}: nothing was changed; the text is in {path}")
