"""What two writers change back and forth, in the answers about a workload and what it depends on."""

from __future__ import annotations

from fathom.explain.coupling.fight_texts import as_objects, fight_conditions, listed_fights, shared_list
from fathom.explain.coupling.fights import Fight, FightObject
from fathom.explain.coupling.observed import contested_fields
from fathom.explain.evidence import Evidence, HeldObjects, ObjectRef
from fathom.explain.fights_about import fights_about
from fathom.model.audit import AuditEntry
from fathom.model.objects import Obj

SINCE = "since 2026-01-01T00:00:00Z"
SECOND_NS = 1_000_000_000
NOW_NS = 1_767_225_600 * SECOND_NS


def fight(resource: str, path: str, field: str, *writers: str) -> Fight:
    namespace, _, name = path.rpartition("/")
    about = FightObject(resource, namespace, name, f"uid-{name}")
    return Fight(
        form="TwoWriters",
        object=about,
        field=field,
        writers=writers,
        period_s=2.0,
        since_ns=NOW_NS,
        last_ns=NOW_NS,
        changes=9,
    )


FIGHTS = (
    fight("deployments.apps", "shop/web", "spec.replicas", "ann", "controllers/autoscaling"),
    fight("replicasets.apps", "shop/web-1", "spec.replicas", "ann", "controllers/deployments"),
    fight("pods", "shop/web-1-7", "metadata.name", "ann", "controllers/replicasets"),
    fight("nodes", "n1", "spec.taints", "ann", "controllers/nodes"),
    fight("deployments.apps", "shop/other", "spec.replicas", "bob", "controllers/autoscaling"),
    fight("pods", "theirs/web-1-7", "metadata.name", "eve", "controllers/replicasets"),
)


def owned(name: str, owner: str) -> Obj:
    references = [{"controller": True, "uid": owner}]
    return {"metadata": {"namespace": "shop", "name": name, "uid": name, "ownerReferences": references}}


def evidence(resource: str, path: str, *, may_read_nodes: bool = True) -> Evidence:
    namespace, _, name = path.rpartition("/")
    signals = {
        "metadata": {"name": "field-fights"},
        "status": {"fights": as_objects(listed_fights(FIGHTS))},
    }
    objects = HeldObjects(
        {
            "componentsignals.fathom.dev": [signals],
            "deployments.apps": [{"metadata": {"namespace": "shop", "name": "web", "uid": "web"}}],
            "replicasets.apps": [owned("web-1", "web")],
            "nodes": [{"metadata": {"name": "n1", "uid": "n1"}}],
        }
    )
    return Evidence(
        subject=ObjectRef(resource, namespace, name), objects=objects, may_read_nodes=may_read_nodes
    )


def test_the_status_lists_each_fight_in_fields_and_in_words() -> None:
    (listed,) = as_objects(listed_fights(FIGHTS[:1]))
    text = f"spec.replicas is changed back and forth by ann and controllers/autoscaling, every 2 s, {SINCE}"
    assert listed == {
        "form": "TwoWriters",
        "resource": "deployments.apps",
        "namespace": "shop",
        "name": "web",
        "field": "spec.replicas",
        "writers": ["ann", "controllers/autoscaling"],
        "text": text,
    }


def test_servers_that_share_a_store_keep_each_others_fights_in_the_list() -> None:
    ours, theirs, both = listed_fights(FIGHTS[:1]), listed_fights(FIGHTS[1:2]), listed_fights(FIGHTS[:2])
    first = shared_list(ours, (), server="a", now_ns=NOW_NS)
    second = shared_list(both, first, server="b", now_ns=NOW_NS + 5 * SECOND_NS)
    assert [(each.name, each.seen_by) for each in second] == [(ours[0].name, "a"), (theirs[0].name, "b")]
    assert shared_list(ours, second, server="a", now_ns=NOW_NS + 10 * SECOND_NS) == second
    message = fight_conditions([], second, "2026-01-01T00:00:05Z")[0]["message"]
    assert ours[0].text in message
    assert theirs[0].text in message


def test_a_server_says_again_what_it_sees_and_is_forgotten_when_it_does_not() -> None:
    ours = listed_fights(FIGHTS[:1])
    said = shared_list(ours, (), server="a", now_ns=NOW_NS)
    later_ns = NOW_NS + 30 * SECOND_NS
    (again,) = shared_list(ours, said, server="a", now_ns=later_ns)
    assert again.seen_at > said[0].seen_at
    assert shared_list((), (again,), server="b", now_ns=later_ns + 50 * SECOND_NS) == (again,)
    assert shared_list((), (again,), server="b", now_ns=later_ns + 70 * SECOND_NS) == ()
    assert shared_list((), (again,), server="a", now_ns=later_ns) == ()


def test_a_deployment_names_the_fights_about_itself_its_pods_and_the_nodes_and_no_others() -> None:
    lines = fights_about(evidence("deployments.apps", "shop/web"))
    assert [line.partition(":")[0] for line in lines] == [
        "Deployment shop/web",
        "ReplicaSet shop/web-1",
        "Pod shop/web-1-7",
        "Node n1",
    ]
    assert all("by ann and controllers/" in line for line in lines)
    assert fights_about(evidence("nodes", "n1")) == (lines[3],)


def test_who_may_not_read_nodes_is_not_told_of_them() -> None:
    lines = fights_about(evidence("deployments.apps", "shop/web", may_read_nodes=False))
    assert not any("Node" in line for line in lines)


def test_a_person_who_writes_a_status_in_turn_with_a_controller_fights_it() -> None:
    def turns(first: str, second: str) -> list[AuditEntry]:
        return [
            AuditEntry(
                id=str(number),
                time="2026-01-01T00:00:00Z",
                user="ann",
                verb="patch",
                resource="tenantquotas.fathom.dev",
                name="shop",
                code=200,
                actor=first if number % 2 else second,
                changed=("status.used[0]",),
                revision=number,
            )
            for number in range(6)
        ]

    quota = ObjectRef("tenantquotas.fathom.dev", "", "shop")
    assert contested_fields(turns("", "housekeeping/tenant-quotas"), quota) == ("status.used[0]",)
    assert contested_fields(turns("controllers/nodes", "controllers/node-trust"), quota) == ()
