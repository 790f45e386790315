"""What happens in a live cluster and not in its fork, as data: every preview says it."""

from __future__ import annotations

from fathom.kinds.preview_answer import NotModelled

NOT_MODELLED: tuple[NotModelled, ...] = (
    NotModelled("foreign-controllers", "Controllers and clients that are not part of fathom do nothing."),
    NotModelled(
        "in-memory-queues",
        "Queues begin empty: back-off of waiting pods, and what autoscalers remember beyond their objects, "
        "is not known.",
    ),
    NotModelled(
        "gateway", "No traffic is carried: the gateway, routes and conditions of serving stand still."
    ),
    NotModelled(
        "images", "Images are not pulled: a new container starts after a second or two, if it starts."
    ),
    NotModelled(
        "programs",
        "Programs do not run. A pod goes on as its status says: it stays ready, crashes or fails as before, "
        "and uses what it used. New pods behave as others of their workload.",
    ),
    NotModelled("secrets", "Contents of Secrets, tokens and keys are left out; no program reads them there."),
    NotModelled("future-events", "Nobody else changes anything, and no machine fails meanwhile."),
)
