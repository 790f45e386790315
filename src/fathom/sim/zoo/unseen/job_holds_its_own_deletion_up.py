"""A Job that is being deleted keeps the finalizers of its pods: one that is deleted in the foreground never
goes."""

from __future__ import annotations

from fathom.controllers.job.plan import plan_job
from fathom.sim.zoo import rewrite

ROOM = "controllers/job"

rewrite(
    plan_job,
    'return Plan(patches=let_go(facts.pods), why="the Job is being deleted")',
    "return NOTHING",
)
