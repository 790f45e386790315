"""Which object a question means: kinds as users write them, and names as KIND.NAME."""

from __future__ import annotations

from fathom.explain.evidence import ObjectRef
from fathom.explain.why_of.lookups import title
from fathom.kinds.question import AskedObject
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.errors import ApiError, bad_request, not_found


def asked_object(registry: Registry, asked: AskedObject, namespace: str) -> tuple[Kind, ObjectRef]:
    """`namespace`: the question's own. Raises 400."""
    kind = kind_named(registry, asked.resource or asked.kind)
    if not asked.name:
        raise bad_request("spec.subject.name is missing")
    if not kind.namespaced:
        return kind, ObjectRef(kind.resource, "", asked.name, asked.uid)
    if asked.namespace not in {"", namespace}:
        raise bad_request(
            f"spec.subject.namespace is {asked.namespace!r}, but the question is in namespace {namespace!r}"
        )
    return kind, ObjectRef(kind.resource, namespace, asked.name, asked.uid)


def object_of_name(name: str) -> AskedObject:
    """'pod.web-1': the kind has no dot, the name may have some. Raises 400."""
    kind, dot, rest = name.partition(".")
    if not dot or not rest:
        raise bad_request(f"the name must read KIND.NAME, such as pod.web-1, not {name!r}")
    return AskedObject(kind=kind, name=rest)


SHORTER = {"override": "scheduleroverride"}  # As `fathom override` and its answers name it.


def kind_named(registry: Registry, text: str) -> Kind:
    """'Pod', 'po', 'deployment', 'deployments.apps'. Of several groups with one name, the first. Raises
    400."""
    wanted = SHORTER.get(text.lower(), text.lower())
    for kind in registry.kinds():
        if not kind.virtual and kind.plural and not kind.stored_as and wanted in _names(kind):
            return kind
    raise bad_request(f"spec.subject: there is no kind {text!r}" if text else "spec.subject.kind is missing")


def _names(kind: Kind) -> set[str]:
    short = {kind.plural, kind.singular, kind.kind.lower()}
    full = {f"{name}.{kind.group}" for name in short} if kind.group else set()
    return short | full | set(kind.short_names)


def namespace_of_answer(namespace: str) -> str:
    """Where the answer about a subject is: in the subject's namespace, or in `fathom-system`."""
    return namespace or SYSTEM_NAMESPACE


def no_such_subject(subject: ObjectRef) -> ApiError:
    name = title(subject.resource, subject.key)
    message = f"there is no {name[0].lower()}{name[1:]}, and nothing is on record about one"
    return ApiError(404, "NotFound", message, details=not_found(subject.resource, subject.name).details)
