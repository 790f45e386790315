"""What Explanation, Timeline and Coupling have in common: they are questions, answered and never stored.

A client sends the question as `spec`, and gets it back with the answer as `status`. The path names the
namespace of the answer: the subject's own, or `fathom-system` for a subject without one.
"""

from __future__ import annotations

from typing import Annotated, Any

from fathom.kinds.schema import KEEPS_UNKNOWN_FIELDS, field_schema
from fathom.kinds.shape import Shape


class AskedObject(Shape, frozen=True):
    """The object that the question is about. One of `kind` and `resource` is enough."""

    kind: Annotated[str, field_schema("As users write it: Pod, po, deployments.apps.", maxLength=253)] = ""
    resource: Annotated[str, field_schema("In full: pods, deployments.apps.", maxLength=253)] = ""
    namespace: Annotated[str, field_schema("Default: the namespace of the question.", maxLength=253)] = ""
    name: Annotated[str, field_schema("Of the object.", maxLength=253)] = ""
    uid: Annotated[str, field_schema("Of one of several objects that had the name.", maxLength=128)] = ""


Answered = Annotated[dict[str, Any], KEEPS_UNKNOWN_FIELDS]
