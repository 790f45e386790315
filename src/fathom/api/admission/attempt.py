"""One write in admission (`WriteAttempt`), and what admission adds to its commit (`Charge`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fathom.kube.definitions.kind import Kind
from fathom.model.audit import Verdict
from fathom.model.errors import ApiError, Cause, forbidden
from fathom.model.objects import Obj
from fathom.model.user import User
from fathom.store.protocol import Expect, Write

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
CONNECT: Final = "CONNECT"


class WriteAttempt(msgspec.Struct):
    """What a caller wants to write. Plugins read it; only the chain changes it."""

    operation: str
    kind: Kind
    namespace: str
    name: str
    obj: Obj | None  # As it would be stored. None for a deletion.
    old: Obj | None  # As it is stored. None for a creation.
    user: User
    subresource: str = ""
    dry_run: bool = False
    options: Obj | None = None  # The options of the request: DeleteOptions, ...
    break_glass: str = ""  # The override that allows it, where no role does.
    fence: str = ""  # Fathom-Fence: the lease that the writer holds, as namespace/name/epoch.
    overrides_seen: str = ""  # Fathom-Overrides-Seen: the revision of the overrides that it was decided by.
    warnings: list[str] = msgspec.field(default_factory=list)
    notes: list[tuple[str, str]] = msgspec.field(default_factory=list)

    def warn(self, message: str) -> None:
        """Show the caller a `Warning:` header."""
        self.warnings.append(message)

    def note(self, key: str, value: Any) -> None:
        """Keep something with the plugin's verdict in the audit log."""
        self.notes.append((key, str(value)))


class Charge(msgspec.Struct, frozen=True):
    """Preconditions and writes that go into the object's own commit."""

    preconditions: tuple[Expect, ...] = ()
    writes: tuple[Write, ...] = ()


class Admitted(msgspec.Struct, frozen=True):
    obj: Obj | None
    verdicts: tuple[Verdict, ...] = ()
    charges: tuple[Charge, ...] = ()
    warnings: tuple[str, ...] = ()


class Denied(ApiError):
    """A plugin's refusal, in the plugin's words, with the verdicts so far for the audit entry."""

    def __init__(self, error: ApiError, verdicts: tuple[Verdict, ...]) -> None:
        super().__init__(
            error.code,
            error.reason,
            error.message,
            details=error.details,
            retry_after_s=error.retry_after_s,
            list_meta=error.list_meta,
        )
        self.verdicts = verdicts


def refused(attempt: WriteAttempt, why: str, causes: Sequence[Cause] = ()) -> ApiError:
    """A 403 in the form of Kubernetes' own plugins."""
    resource = attempt.kind.resource
    message = f'{resource} "{attempt.name}" is forbidden: {why}'
    return forbidden(message, resource=resource, name=attempt.name, causes=causes)
