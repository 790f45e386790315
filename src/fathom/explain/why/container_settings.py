"""A setting that keeps a container from starting: its account, user, working directory or hook. Pure."""

from __future__ import annotations

from fathom.explain import kubernetes_texts
from fathom.explain.why import commands
from fathom.explain.why.answer import Change
from fathom.explain.why.case import ContainerFacts, PodCase
from fathom.model.objects import Key, lookup

ACCOUNTS = "serviceaccounts"
# Types of volumes that agents mount, as docs/agents.md lists them.
MOUNTED = {"configMap", "secret", "downwardAPI", "projected", "emptyDir", "hostPath"}
ANY_USER = 1000  # Any number but 0 will do.


def missing_account(case: PodCase) -> tuple[str, Change] | None:
    """The pod's ServiceAccount does not exist: its containers wait for its token."""
    name = str(lookup(case.pod, "spec", "serviceAccountName") or "")
    namespace = case.key.namespace
    if not name or not case.evidence.knows(ACCOUNTS):
        return None
    if case.evidence.objects.get(ACCOUNTS, Key(namespace, name)) is not None:
        return None
    command = commands.kubectl("create", "serviceaccount", name, namespace=namespace)
    change = Change(f"create ServiceAccount {name}", command, f"whoever may create {ACCOUNTS} in {namespace}")
    return f"the pod needs ServiceAccount {name}, which does not exist", change


def root_refused(container: ContainerFacts, case: PodCase) -> tuple[str, Change] | None:
    """It may not run as root (runAsNonRoot), and asks for user 0."""
    if not _setting(container, case, "runAsNonRoot") or _setting(container, case, "runAsUser") != 0:
        return None
    operation = commands.set_container_field(case, container, ("securityContext", "runAsUser"), ANY_USER)
    change = Change(
        f"set runAsUser of container {container.name} to another user than 0, for example {ANY_USER}",
        commands.spec_change(case, [operation]),
        commands.owner_text(case),
    )
    return f"container {container.name} asks for user 0, and runAsNonRoot forbids that", change


def unmounted_volume(case: PodCase) -> tuple[str, Change] | None:
    """A volume of a type that fathom's agents do not mount. Only they report the condition Starting."""
    if not case.condition("Starting"):
        return None
    for index, volume in enumerate(lookup(case.pod, "spec", "volumes") or ()):
        types = volume.keys() - {"name"}
        if types and not types & MOUNTED:
            name, type_ = volume.get("name"), min(types)
            other = {"name": name, "emptyDir": {}}
            operation = commands.set_field(case, ("spec", "volumes", index), other)
            change = Change(
                f"give volume {name} a type that agents mount, such as emptyDir",
                commands.spec_change(case, [operation]),
                commands.owner_text(case),
            )
            return f"volume {name} has the type {type_}, which fathom's agents do not mount", change
    return None


def _setting(container: ContainerFacts, case: PodCase, field: str) -> object:
    """Of the container's security context, which comes before that of its pod."""
    own = lookup(container.spec, "securityContext", field)
    return own if own is not None else lookup(case.pod, "spec", "securityContext", field)


def missing_directory(container: ContainerFacts, case: PodCase) -> Change | None:
    """Its command is not even looked for: the directory that it should run in cannot be entered."""
    if not kubernetes_texts.is_about_directory(str(container.ended.get("message") or "")):
        return None
    operation = commands.set_container_field(case, container, ("workingDir",), "DIRECTORY")
    return Change(
        f"correct workingDir of container {container.name}",
        commands.spec_change(case, [operation]),
        commands.owner_text(case),
    )


def failed_hook(container: ContainerFacts, case: PodCase) -> tuple[str, Change] | None:
    """What its postStart hook answered, where the agent ended the container because of that."""
    answer = kubernetes_texts.failed_hook(str(container.ended.get("message") or ""))
    if answer is None:
        return None
    hook = lookup(container.spec, "lifecycle", "postStart") or {}
    what = f"correct the postStart hook of container {container.name}"
    command = ""
    if "exec" in hook:
        path = ("lifecycle", "postStart", "exec", "command")
        operation = commands.set_container_field(case, container, path, ["PROGRAM"])
        command = commands.spec_change(case, [operation])
    return answer, Change(what, command, commands.owner_text(case))
