"""NamespaceLifecycle: objects need an existing namespace, and none are created in a terminating one."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.admission.attempt import CREATE, DELETE, Charge, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.model.declared import Reads
from fathom.model.errors import Cause, forbidden, not_found
from fathom.model.objects import Key, Obj, is_deleting, lookup
from fathom.model.view import Seen, View
from fathom.store.protocol import Expect

NAMESPACES = "namespaces"
IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


class NamespaceLifecycle(Plugin):
    name = "NamespaceLifecycle"
    # An object that can be updated has a namespace: a namespace is emptied before it is removed.
    operations = frozenset({CREATE, DELETE})
    trusted = True
    reads = (Reads("Namespace", ("metadata", "status.phase"), "commit"),)

    def __init__(self, immortal: frozenset[str] = IMMORTAL) -> None:
        self._immortal = immortal

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        """Changes nothing; refuses in this phase, so that a missing namespace is reported before objects
        missing in it."""
        assert attempt.obj is not None
        if _lives_in_a_namespace(attempt):
            seen = view.get(NAMESPACES, Key("", attempt.namespace))
            if seen is None:
                raise not_found(NAMESPACES, attempt.namespace)
            if is_terminating(seen.obj):
                raise refused(attempt, _terminating(attempt.namespace), (_terminating_cause(attempt),))
        return attempt.obj

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        doomed = attempt.operation == DELETE and attempt.kind.resource == NAMESPACES
        if doomed and attempt.name in self._immortal:
            message = f'{NAMESPACES} "{attempt.name}" is forbidden: this namespace may not be deleted'
            raise forbidden(message, resource=NAMESPACES, name=attempt.name)

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        """The commit expects the namespace unchanged, which defeats this race:
        1. We see the namespace alive.
        2. It is deleted, and its contents are listed to be removed.
        3. Our object is stored, and nothing ever removes it."""
        if attempt.operation != CREATE or not _lives_in_a_namespace(attempt):
            return ()
        seen = view.get(NAMESPACES, Key("", attempt.namespace))
        return (Charge((_unchanged(attempt.namespace, seen),)),) if seen else ()


def is_terminating(namespace: Obj) -> bool:
    return is_deleting(namespace) or lookup(namespace, "status", "phase") == "Terminating"


def _lives_in_a_namespace(attempt: WriteAttempt) -> bool:
    # Reviews are answered, never stored: refusing them would reveal whether the namespace exists.
    return bool(attempt.namespace) and attempt.kind.namespaced and not attempt.kind.virtual


def _unchanged(namespace: str, seen: Seen) -> Expect:
    return Expect(f"/registry/{NAMESPACES}/{namespace}", seen.revision)


def _terminating(namespace: str) -> str:
    return f"unable to create new content in namespace {namespace} because it is being terminated"


def _terminating_cause(attempt: WriteAttempt) -> Cause:
    message = f"namespace {attempt.namespace} is being terminated"
    return Cause("metadata.namespace", "NamespaceTerminating", message)
