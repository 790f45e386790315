"""A delete without any grace period is sent as one with the kind's default: a stranded pod whose removal was
approved is being deleted for ever, as no agent ends it."""

from __future__ import annotations

from fathom.client.api import Api
from fathom.sim.zoo import rewrite

ROOM = "client"

rewrite(Api.delete, "if grace_s is not None:", "if grace_s:")
