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

    kind: Annotated[
        str,
        field_schema(
            "Its kind as users write it: Pod, po, deployments.apps. Set either kind or resource.",
            maxLength=253,
        ),
    ] = ""
    resource: Annotated[str, field_schema("Its resource in full: pods, deployments.apps.", maxLength=253)] = (
        ""
    )
    namespace: Annotated[
        str, field_schema("Its namespace. Absent: the namespace of the question.", maxLength=253)
    ] = ""
    name: Annotated[str, field_schema("Its name.", maxLength=253)] = ""
    uid: Annotated[
        str,
        field_schema("Its UID, where several objects have had the name. Absent: any of them.", maxLength=128),
    ] = ""


Answered = Annotated[dict[str, Any], KEEPS_UNKNOWN_FIELDS]
Subject = Annotated[AskedObject, field_schema("The object that the question is about.", required=True)]
