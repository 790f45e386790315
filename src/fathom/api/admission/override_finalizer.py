"""OverrideFinalizer: an override is created with the finalizer that holds it until its end is proven.

Not by the controller at first sight: an override acts from its commit on, and may be deleted before that.
"""

from __future__ import annotations

from fathom.api.admission.attempt import CREATE, WriteAttempt
from fathom.api.admission.plugin import Plugin
from fathom.kinds.override_status import FINALIZER
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.model.declared import Writes
from fathom.model.objects import Obj, metadata, with_metadata
from fathom.model.view import View


class OverrideFinalizer(Plugin):
    name = "OverrideFinalizer"
    resources = frozenset({OVERRIDES})
    operations = frozenset({CREATE})
    trusted = True
    writes = (Writes("SchedulerOverride", ("metadata.finalizers",)),)

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        assert attempt.obj is not None
        finalizers = metadata(attempt.obj).get("finalizers") or []
        if FINALIZER in finalizers:
            return attempt.obj
        return with_metadata(attempt.obj, finalizers=[*finalizers, FINALIZER])
