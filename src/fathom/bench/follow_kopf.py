"""The same as `follow`, done by kopf: one index that holds the objects, and an index for each of ours.

The stream is the same (kopf's initial streaming is on), messages to the cluster are off, all else is as kopf
comes. Run it where kopf is installed: it is no dependency of fathom.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import kopf
import uvloop

from fathom.bench.follow import reached, say


def operator(url: str, *, changes: int, objects: int) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    remaining = {"objects": objects, "changes": changes}

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=url)

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.watching.initial_streaming = True
        settings.scanning.disabled = True

    @kopf.index("pods", registry=registry)
    def by_key(**pod: Any) -> dict[Any, Any]:
        return {_key(pod): dict(pod["body"])}

    @kopf.index("pods", registry=registry)
    def by_node(**pod: Any) -> dict[Any, Any]:
        return {pod["spec"]["nodeName"]: _key(pod)}

    @kopf.index("pods", registry=registry)
    def by_owner(**pod: Any) -> dict[Any, Any]:
        return {pod["meta"]["ownerReferences"][0]["uid"]: _key(pod)}

    @kopf.index("pods", registry=registry)
    def by_tenant(**pod: Any) -> dict[Any, Any]:
        return {pod["namespace"]: _key(pod)}

    @kopf.index("pods", registry=registry)
    def by_priority_class(**pod: Any) -> dict[Any, Any]:
        """The last of the five: this pod's other indexes are done."""
        counted = "changes" if pod["status"]["phase"] == "Failed" else "objects"
        remaining[counted] -= 1
        if remaining[counted] == 0:
            say(reached())
        return {pod["spec"]["priorityClassName"]: _key(pod)}

    return registry


def _key(pod: dict[str, Any]) -> tuple[str, str]:
    return pod["namespace"], pod["name"]


async def main(url: str, changes: int, objects: int) -> None:
    logging.disable(logging.WARNING)
    say(reached())
    registry = operator(url, changes=changes, objects=objects)
    await kopf.operator(registry=registry, standalone=True, clusterwide=True)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
