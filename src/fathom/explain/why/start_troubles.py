"""A container cannot be started: its image, its configuration, its command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fathom.explain import kubernetes_texts
from fathom.explain.kubernetes_texts import MissingReference
from fathom.explain.why import commands, container_settings
from fathom.explain.why.answer import Change
from fathom.explain.why.case import ContainerFacts, PodCase
from fathom.explain.why.trouble import Trouble, one_line
from fathom.model.objects import Key, Obj, lookup
from fathom.model.reasons import (
    CONFIG,
    IMAGE,
    container_boundary,
)

START_ERROR = "StartError"
KINDS = {"configmap": "ConfigMap", "secret": "Secret"}
# Of a variable, of a volume, and the name of the object in a volume.
REFERENCE_FIELDS = {
    "configmap": ("configMapKeyRef", "configMap", "name"),
    "secret": ("secretKeyRef", "secret", "secretName"),
}
SOURCE_FIELDS = {"configmap": "configMapRef", "secret": "secretRef"}  # Of all variables from one object.


def image_trouble(container: ContainerFacts, case: PodCase) -> Trouble | None:
    waiting = container.waiting
    if container_boundary(str(waiting.get("reason"))) != IMAGE:
        return None
    image = container.spec.get("image", "")
    operation = commands.set_container_field(case, container, ("image",), "IMAGE")
    change = Change(
        f"correct the image of container {container.name}",
        commands.spec_change(case, [operation], in_place=True),
        commands.owner_text(case),
    )
    cause = f"image {image!r} of container {container.name} cannot be pulled ({waiting.get('reason')}"
    return Trouble(0, f"{cause}: {one_line(waiting.get('message'))})", change)


def config_trouble(container: ContainerFacts, case: PodCase) -> Trouble | None:
    waiting = container.waiting
    if container_boundary(str(waiting.get("reason"))) != CONFIG:
        return None
    message = str(waiting.get("message") or "")
    missing = next(missing_references(container, case), None) or reported_missing(message, case)
    if missing is None:
        return _settings(container, case, message)
    kind, name, keys, exists = missing.kind, missing.name, missing.keys, missing.exists
    listed = f"key{'s' if len(keys) > 1 else ''} {' and '.join(keys)} of " if keys else ""
    wants = f"container {container.name} needs {listed}{KINDS[kind]} {name}"
    return Trouble(
        1,
        f"{wants}, which has no such key" if exists else f"{wants}, which does not exist",
        _create(case, kind, name, keys, exists=exists),
    )


def _settings(container: ContainerFacts, case: PodCase, message: str) -> Trouble:
    known = (
        container_settings.missing_account(case)
        or container_settings.unmounted_volume(case)
        or container_settings.root_refused(container, case)
    )
    if known is not None:
        return Trouble(1, *known)
    command = commands.kubectl("describe", "pod", case.key.name, namespace=case.key.namespace)
    change = Change(f"correct what container {container.name} refers to", command, commands.owner_text(case))
    return Trouble(1, f"container {container.name} cannot be configured: {one_line(message)}", change)


def missing_references(container: ContainerFacts, case: PodCase) -> Iterator[MissingReference]:
    """ConfigMaps and Secrets that the container or the pod's volumes want, as they are now."""
    for kind, name in dict.fromkeys(_references(container, case.pod)):
        if not case.evidence.knows(f"{kind}s"):
            continue
        obj = case.evidence.objects.get(f"{kind}s", Key(case.key.namespace, name))
        if obj is None:
            yield MissingReference(kind, name, tuple(sorted(wanted_keys(case.pod, kind, name))))
        elif absent := _absent_keys(case, kind, name):
            yield MissingReference(kind, name, tuple(sorted(absent)), exists=True)


def _references(container: ContainerFacts, pod: Obj) -> Iterator[tuple[str, str]]:
    """(kind, name) of what the container cannot start without."""
    for kind, (variable_field, volume_field, name_field) in REFERENCE_FIELDS.items():
        sources = [lookup(each, "valueFrom", variable_field) for each in container.spec.get("env") or ()]
        sources += [each.get(SOURCE_FIELDS[kind]) for each in container.spec.get("envFrom") or ()]
        for volume in lookup(pod, "spec", "volumes") or ():
            parts = (volume, *(lookup(volume, "projected", "sources") or ()))
            sources += [part.get(volume_field) for part in parts]
        for source in sources:
            name = (source or {}).get("name") or (source or {}).get(name_field)
            if name and not source.get("optional"):
                yield kind, str(name)


def reported_missing(message: str, case: PodCase) -> MissingReference | None:
    """As a kubelet reports the first that is missing; the pod may want more keys of the object, and starts
    only with all of them."""
    missing = kubernetes_texts.missing_reference(message)
    if missing is None:
        return None
    others = _absent_keys if missing.exists else _wanted_keys
    absent = sorted({*missing.keys, *others(case, missing.kind, missing.name)})
    return msgspec.structs.replace(missing, keys=tuple(absent))


def _wanted_keys(case: PodCase, kind: str, name: str) -> set[str]:
    return wanted_keys(case.pod, kind, name)


def wanted_keys(pod: Obj, kind: str, name: str) -> set[str]:
    """The keys of a ConfigMap or Secret that the pod cannot start without."""
    variable_field, volume_field, name_field = REFERENCE_FIELDS[kind]
    references = [
        reference
        for field in ("initContainers", "containers")
        for container in lookup(pod, "spec", field) or ()
        for variable in container.get("env") or ()
        if (reference := lookup(variable, "valueFrom", variable_field)) and reference.get("name") == name
    ]
    for volume in lookup(pod, "spec", "volumes") or ():
        for source in (volume, *(lookup(volume, "projected", "sources") or ())):
            held = source.get(volume_field) or source.get(kind) or {}
            if name in {held.get(name_field), held.get("name")} and not held.get("optional"):
                references += held.get("items") or ()
    return {str(each["key"]) for each in references if each.get("key") and not each.get("optional")}


def _absent_keys(case: PodCase, kind: str, name: str) -> set[str]:
    """The keys that the pod wants and an object that exists does not have."""
    obj = case.evidence.objects.get(f"{kind}s", Key(case.key.namespace, name))
    present = {key for field in ("data", "binaryData") for key in (obj or {}).get(field) or ()}
    return wanted_keys(case.pod, kind, name) - present if obj is not None else set()


def _create(case: PodCase, kind: str, name: str, keys: Sequence[str], *, exists: bool) -> Change:
    namespace, who = case.key.namespace, commands.owner_text(case)
    listed = f"key{'s' if len(keys) > 1 else ''} {' and '.join(keys)}"
    if not exists:
        literals = [f"--from-literal={key}=VALUE" for key in keys]
        words = (
            ("create", "configmap", name) if kind == "configmap" else ("create", "secret", "generic", name)
        )
        command = commands.kubectl(*words, *literals, namespace=namespace)
        return Change(f"create {KINDS[kind]} {name}{f' with {listed}' if keys else ''}", command, who)
    field = "data" if kind == "configmap" else "stringData"
    command = commands.merge_patch(kind, name, {field: dict.fromkeys(keys, "VALUE")}, namespace=namespace)
    return Change(f"add {listed} to {KINDS[kind]} {name}", command, who)


def command_trouble(container: ContainerFacts, case: PodCase) -> Trouble | None:
    ended = container.ended
    if ended.get("reason") != START_ERROR or container.is_running:
        return None
    words = [*(container.spec.get("command") or ()), *(container.spec.get("args") or ())]
    shown = f" {words[0]!r}" if words else ""
    why = one_line(ended.get("message"))
    cause = f"the command{shown} of container {container.name} cannot be started: {why}"
    change = container_settings.missing_directory(container, case) or _other_command(container, case)
    return Trouble(2, cause, change)


def _other_command(container: ContainerFacts, case: PodCase) -> Change:
    operation = commands.set_container_field(case, container, ("command",), ["PROGRAM"])
    return Change(
        f"correct the command of container {container.name}",
        commands.spec_change(case, [operation]),
        commands.owner_text(case),
    )


def not_created_trouble(container: ContainerFacts, case: PodCase) -> Trouble | None:
    """Other reasons why the agent could not start it: its disk, its runtime."""
    reason = str(container.waiting.get("reason") or "")
    if reason in {"", "CrashLoopBackOff", "ContainerCreating", "PodInitializing"}:
        return None
    why = one_line(container.waiting.get("message"))
    cause = f"container {container.name} cannot be started ({reason}: {why})"
    change = Change(
        f"repair node {case.node}", commands.kubectl("describe", "node", case.node), "a cluster operator"
    )
    return Trouble(3, cause, change)
