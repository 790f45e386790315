"""`fathom scale`: set the number of replicas."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter, validators

from fathom.cli.api_server import ServerConnection
from fathom.cli.objects.answers import done
from fathom.cli.objects.options import named_objects
from fathom.cli.objects.override_notes import say_overrides, shown
from fathom.cli.objects.resources import NamedObject, Resources
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.model.media_types import MERGE_PATCH
from fathom.terminal import say


def scale(
    *what: Annotated[str, Parameter(name="KIND/NAME", help="Objects with replicas: deployment/web")],
    replicas: Annotated[int, Parameter(help="How many.", validator=validators.Number(gte=0))],
    current_replicas: Annotated[
        int | None, Parameter(help="Only if this is the number now: else nothing is changed.")
    ] = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Set the number of replicas of a Deployment, a ReplicaSet or another kind that has a scale.

    Prints that it was scaled.

    fathom scale deployment/web --replicas=5
    fathom scale deployment/web --replicas=3 --current-replicas=5
    """
    server = ServerConnection(found_kubeconfig(kubeconfig))
    at = chosen_namespace(namespace, kubeconfig)
    for named in named_objects(what, Resources(server)):
        if not named.names:
            raise Problem(f"name the objects of the kind {named.resource.full_name} that are to be scaled")
        for name in named.names:
            path = named.resource.path(at, name, "scale")
            patch: dict[str, object] = {"spec": {"replicas": replicas}}
            if current_replicas is not None:
                there = done(*server.request("GET", path), path)
                now = (there.get("spec") or {}).get("replicas", 0)
                if now != current_replicas:
                    raise Problem(
                        f"{named.resource.label}/{name} has {now} replicas, not {current_replicas}: nothing"
                        " was changed",
                        exit_code=ANSWER_IS_NO,
                    )
                patch["metadata"] = {"resourceVersion": there["metadata"]["resourceVersion"]}
            done(*server.request("PATCH", path, patch, media=MERGE_PATCH), path)
            target = NamedObject(named.resource, at, name)
            say(f"{target.label} scaled")
            say_overrides(server, [shown(target)], namespace=at)
    return 0
