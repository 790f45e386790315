"""OverridePreview: what a SchedulerOverride would do, tried in a fork of the cluster before it is created; or
what a whole run of a runbook would.

It is answered, never stored: `ask/`. Its name is its token, REVISION-HASH: of which state it is, and of which
override or run. `preview_answer` has the fields of the answer.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from fathom.kinds.definition import KindDefinition
from fathom.kinds.question import Answered
from fathom.kinds.schema import KEEPS_UNKNOWN_FIELDS, field_schema
from fathom.kinds.shape import Meta, Shape

MINUTES, MINUTES_MAX = 10, 60
SEEDS, SEEDS_MAX = 3, 10

# The permission for an answer from a fork. It tells about the whole cluster, so it is cluster-wide.
FORK_VERB, STATES = "fork", "clusterstates"


class OverridePreviewSpec(Shape, frozen=True):
    override: Annotated[
        dict[str, Any],
        KEEPS_UNKNOWN_FIELDS,
        field_schema(
            "The SchedulerOverride to try: the whole object, as it would be created. Set exactly one of"
            " override and run."
        ),
    ] = msgspec.field(default_factory=dict)
    run: Annotated[
        dict[str, Any],
        KEEPS_UNKNOWN_FIELDS,
        field_schema(
            "The RunbookRun to try, with all of its steps: the whole object, as it would be created."
        ),
    ] = msgspec.field(default_factory=dict)
    minutes: Annotated[
        int,
        field_schema(
            "How many minutes it is watched, in virtual time. Default: 10.", minimum=1, maximum=MINUTES_MAX
        ),
    ] = MINUTES
    seeds: Annotated[
        int,
        field_schema(
            "In how many forks of the cluster it is tried, each with other chances. Default: 3.",
            minimum=1,
            maximum=SEEDS_MAX,
        ),
    ] = SEEDS


class OverridePreview(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[OverridePreviewSpec, field_schema("What to try, and for how long.", required=True)] = (
        OverridePreviewSpec()
    )
    status: Annotated[
        Answered,
        field_schema(
            "The answer: what differs with the override and without it. docs/overrides.md describes it."
        ),
    ] = msgspec.field(default_factory=dict)


DEFINITION = KindDefinition(
    shape=OverridePreview,
    about="What a SchedulerOverride would do, tried in forks of the cluster before it is created. It is"
    " answered and never stored: `fathom override preview -f FILE`.",
    plural="overridepreviews",
    namespaced=True,
    verbs=("create", "get"),
    asks=True,
    view_role_reads=True,
)
OVERRIDE_PREVIEWS = DEFINITION.resource
