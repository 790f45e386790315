"""`fathom rollout`: follow, list, undo, restart, pause and resume the rollouts of a Deployment."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from fathom.cli.api_server import NoAnswerNow, Refused, ServerConnection
from fathom.cli.object_reference import duration_s
from fathom.cli.objects.answers import done
from fathom.cli.objects.logs import selector_of
from fathom.cli.objects.options import one_object
from fathom.cli.objects.override_notes import say_overrides, shown
from fathom.cli.objects.resources import NamedObject, Resources
from fathom.cli.objects.tables import aligned_lines
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.model.media_types import MERGE_PATCH
from fathom.terminal import say

Obj = dict[str, Any]

REVISION, CHANGE_CAUSE = "deployment.kubernetes.io/revision", "kubernetes.io/change-cause"
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
TEMPLATE_HASH = "pod-template-hash"
POLL_S = 0.5
USAGE = "fathom rollout COMMAND deployment/web"

What = Annotated[str, Parameter(name="KIND/NAME", help="A Deployment: deployment/web")]

HELP = """Follow, list, undo, restart, pause and resume rollouts of Deployments.

fathom rollout status deployment/web
fathom rollout undo deployment/web
"""

app = App(name="rollout", help=HELP)


class Rollout(msgspec.Struct, frozen=True):
    """How far a Deployment's newest rollout is."""

    message: str
    done: bool = False
    failed: bool = False
    paused: str = ""  # Why it does not go on, as its controller says.


class _Deployment:
    """The Deployment that a user named."""

    def __init__(self, what: tuple[str, ...], namespace: str, kubeconfig: Any) -> None:
        self.server = ServerConnection(found_kubeconfig(kubeconfig))
        resources = Resources(self.server)
        self.resource, self.name = one_object(what, resources, USAGE)
        if (self.resource.group, self.resource.kind) != ("apps", "Deployment"):
            raise Problem(f"{self.resource.full_name} have no rollouts: name a Deployment")
        self.namespace = chosen_namespace(namespace, kubeconfig)
        self._replica_sets = resources.find("replicasets.apps")

    @property
    def label(self) -> str:
        return f"{self.resource.label}/{self.name}"

    def read(self) -> Obj:
        path = self.resource.path(self.namespace, self.name)
        return done(*self.server.request("GET", path), path)

    def patch(self, patch: Obj) -> Obj:
        path = self.resource.path(self.namespace, self.name)
        return done(*self.server.request("PATCH", path, patch, media=MERGE_PATCH), path)

    def replace(self, obj: Obj) -> Obj:
        path = self.resource.path(self.namespace, self.name)
        return done(*self.server.request("PUT", path, obj), path)

    def say_done(self, word: str) -> None:
        """What was done, and which overrides hold the Deployment."""
        say(f"{self.label} {word}")
        self.say_overrides()

    def say_overrides(self) -> None:
        target = NamedObject(self.resource, self.namespace, self.name)
        say_overrides(self.server, [shown(target)], namespace=self.namespace)

    def revisions(self, deployment: Obj) -> dict[int, Obj]:
        """Revision -> the ReplicaSet that has its template, the oldest first."""
        from urllib.parse import urlencode  # noqa: PLC0415

        query = urlencode({"labelSelector": selector_of(deployment, self.resource)})
        path = f"{self._replica_sets.path(self.namespace)}?{query}"
        listed = done(*self.server.request("GET", path), path).get("items") or ()
        return revisions_of(deployment, listed)


def revisions_of(deployment: Obj, replica_sets: Any) -> dict[int, Obj]:
    uid = deployment["metadata"].get("uid")
    revisions = {}
    for replica_set in replica_sets:
        meta = replica_set["metadata"]
        owners = [owner.get("uid") for owner in meta.get("ownerReferences") or () if owner.get("controller")]
        text = (meta.get("annotations") or {}).get(REVISION, "")
        if uid in owners and text.isdecimal():
            revisions[int(text)] = replica_set
    return dict(sorted(revisions.items()))


def rollout_of(deployment: Obj, *, revision: int = 0) -> Rollout:
    """As kubectl says it. Pure."""
    meta, spec = deployment["metadata"], deployment.get("spec") or {}
    status, name = deployment.get("status") or {}, deployment["metadata"]["name"]
    at = (meta.get("annotations") or {}).get(REVISION, "0")
    if revision and str(revision) != at:
        return Rollout(
            f"desired revision ({revision}) is different from the running revision ({at})", failed=True
        )
    if (status.get("observedGeneration") or 0) < (meta.get("generation") or 0):
        return Rollout("Waiting for deployment spec update to be observed...")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded":
            return Rollout(f'deployment "{name}" exceeded its progress deadline', failed=True)
    wanted = spec.get("replicas", 1)
    updated, total = status.get("updatedReplicas") or 0, status.get("replicas") or 0
    available = status.get("availableReplicas") or 0
    waiting, paused = f'Waiting for deployment "{name}" rollout to finish: ', _paused(status)
    if updated < wanted:
        return Rollout(f"{waiting}{updated} out of {wanted} new replicas have been updated...", paused=paused)
    if total > updated:
        return Rollout(f"{waiting}{total - updated} old replicas are pending termination...", paused=paused)
    if available < updated:
        return Rollout(f"{waiting}{available} of {updated} updated replicas are available...", paused=paused)
    return Rollout(f'deployment "{name}" successfully rolled out', done=True)


def _paused(status: Obj) -> str:
    """kubectl does not say it: it waits, and nobody knows for what."""
    conditions = status.get("conditions") or ()
    paused = (each for each in conditions if each.get("reason") == "DeploymentPaused")
    return next((str(each.get("message") or "") for each in paused), "")


@app.command
def status(
    *what: What,
    watch: Annotated[bool, Parameter(name=("--watch", "-w"), help="Wait until the rollout is done.")] = True,
    timeout: Annotated[str, Parameter(help="How long to wait: 90s, 5m. Default: without end.")] = "",
    revision: Annotated[int, Parameter(help="Fail if another revision is being rolled out.")] = 0,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Say how far the newest rollout is, until it is done. Exits with 1 if it has failed or takes too long.

    Prints a line each time that something changes.

    fathom rollout status deployment/web
    fathom rollout status deployment/web --timeout=90s
    """
    deployment = _Deployment(what, namespace, kubeconfig)
    until = time.monotonic() + duration_s(timeout, "--timeout") if timeout else None
    last = last_paused = ""
    while True:
        try:
            rollout = rollout_of(deployment.read(), revision=revision)
        except NoAnswerNow:
            if not last or not watch:
                raise
            rollout = Rollout(last, paused=last_paused)  # The server may be starting again.
        if rollout.failed:
            ask = f"ask with `fathom why deployment/{deployment.name} -n {deployment.namespace}`"
            raise Problem(f"{rollout.message}; {ask}", exit_code=ANSWER_IS_NO)
        if rollout.message != last:
            say(rollout.message)
            if not last:
                deployment.say_overrides()
            last = rollout.message
        if rollout.paused != last_paused:
            say(rollout.paused or "The rollout goes on.")
            last_paused = rollout.paused
        if rollout.done or not watch:
            return 0
        if until is not None and time.monotonic() >= until:
            ask = f"ask with `fathom why deployment/{deployment.name} -n {deployment.namespace}`"
            raise Problem(f"the rollout is not done after {timeout}; {ask}", exit_code=ANSWER_IS_NO)
        time.sleep(POLL_S)


@app.command
def history(
    *what: What,
    revision: Annotated[int, Parameter(help="Show the pod template of this revision.")] = 0,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """List the revisions of a Deployment that can be returned to.

    Prints a table of them; of one revision, its pod template.

    fathom rollout history deployment/web
    fathom rollout history deployment/web --revision=2
    """
    deployment = _Deployment(what, namespace, kubeconfig)
    revisions = deployment.revisions(deployment.read())
    if revision:
        from fathom.cli.objects.describing import outline  # noqa: PLC0415

        template = _of_revision(revisions, revision, deployment.label)["spec"]["template"]
        say(f"{deployment.label} with revision #{revision}", "Pod Template:")
        say(*(f"  {line}" for line in outline(template)))
        return 0
    rows = [
        (str(number), str((replica_set["metadata"].get("annotations") or {}).get(CHANGE_CAUSE) or "<none>"))
        for number, replica_set in revisions.items()
    ]
    say(f"{deployment.label} ", *aligned_lines([("REVISION", "CHANGE-CAUSE"), *rows], gap=2))
    return 0


@app.command
def undo(
    *what: What,
    to_revision: Annotated[int, Parameter(help="A revision of the history. Default: the one before.")] = 0,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Return to the pod template of an earlier revision.

    Prints that it was rolled back.

    fathom rollout undo deployment/web
    fathom rollout undo deployment/web --to-revision=2
    """
    deployment = _Deployment(what, namespace, kubeconfig)
    for attempt in range(5):
        current = deployment.read()
        if (current.get("spec") or {}).get("paused"):
            raise Problem(
                f"{deployment.label} is paused: resume it first with `fathom rollout resume"
                f" deployment/{deployment.name}`",
                exit_code=ANSWER_IS_NO,
            )
        revisions = deployment.revisions(current)
        earlier = list(revisions)[:-1]
        if not to_revision and not earlier:
            raise Problem(f"{deployment.label} has no earlier revision", exit_code=ANSWER_IS_NO)
        template = template_of(_of_revision(revisions, to_revision or earlier[-1], deployment.label))
        if template == current["spec"].get("template"):
            same = f"current template already matches revision {to_revision or earlier[-1]}"
            say(f"{deployment.label} skipped rollback ({same})")
            return 0
        try:
            deployment.replace({**current, "spec": {**current["spec"], "template": template}})
        except Refused as refused:
            if refused.code != 409 or attempt == 4:
                raise
            continue
        deployment.say_done("rolled back")
        return 0
    raise AssertionError("not reached")


def template_of(replica_set: Obj) -> Obj:
    """The pod template of a revision, as the Deployment had it."""
    template: Obj = replica_set["spec"]["template"]
    meta = template.get("metadata") or {}
    labels = {name: value for name, value in (meta.get("labels") or {}).items() if name != TEMPLATE_HASH}
    return {**template, "metadata": {**meta, "labels": labels}}


def _of_revision(revisions: dict[int, Obj], revision: int, label: str) -> Obj:
    if revision not in revisions:
        listed = ", ".join(map(str, revisions)) or "none"
        raise Problem(f"{label} has no revision {revision}; it has {listed}", exit_code=ANSWER_IS_NO)
    return revisions[revision]


@app.command
def restart(*what: What, namespace: Namespace = "", kubeconfig: Kubeconfig = None) -> int:
    """Replace every pod, a few at a time, without another change.

    Prints that it was restarted.

    fathom rollout restart deployment/web
    fathom rollout restart deployment/web -n shop
    """
    deployment = _Deployment(what, namespace, kubeconfig)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    deployment.patch({"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: now}}}}})
    deployment.say_done("restarted")
    return 0


@app.command
def pause(*what: What, namespace: Namespace = "", kubeconfig: Kubeconfig = None) -> int:
    """Stop rolling out changes of the pod template until `resume`.

    Prints that it is paused.

    fathom rollout pause deployment/web
    fathom rollout pause deployment/web -n shop
    """
    return _set_paused(_Deployment(what, namespace, kubeconfig), paused=True)


@app.command
def resume(*what: What, namespace: Namespace = "", kubeconfig: Kubeconfig = None) -> int:
    """Roll out changes again after `pause`.

    Prints that it goes on.

    fathom rollout resume deployment/web
    fathom rollout resume deployment/web -n shop
    """
    return _set_paused(_Deployment(what, namespace, kubeconfig), paused=False)


def _set_paused(deployment: _Deployment, *, paused: bool) -> int:
    if bool((deployment.read().get("spec") or {}).get("paused")) == paused:
        already = "already paused" if paused else "not paused"
        raise Problem(f"{deployment.label} is {already}", exit_code=ANSWER_IS_NO)
    deployment.patch({"spec": {"paused": paused}})
    deployment.say_done("paused" if paused else "resumed")
    return 0
