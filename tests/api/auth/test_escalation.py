"""Nobody hands out more than they hold."""

from __future__ import annotations

import pytest
from tests.api.auth.cluster import (
    Cluster,
    binding,
    cluster_binding,
    cluster_role,
    role,
    rule,
    to_user,
    user,
)

from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.escalation import check_escalation
from fathom.kube.definitions.kind import Kind
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, with_metadata
from fathom.model.resource_names import RBAC_GROUP
from fathom.model.user import MASTERS, User


def kind_of(name: str, group: str = RBAC_GROUP) -> Kind:
    return Kind(
        group=group,
        version="v1",
        kind=name,
        plural=f"{name.lower()}s",
        singular=name.lower(),
        namespaced=not name.startswith("Cluster"),
        list_kind=f"{name}List",
    )


JANE = user("jane")
READS_PODS = (role("reads", rule("get list", "pods")), binding("b", "reads", to_user("jane")))


def fault(cluster: Cluster, obj: Obj, old: Obj | None = None, who: User = JANE) -> tuple[int, str] | None:
    try:
        check_escalation(who, kind_of(obj["kind"]), obj, old, Authorizer(cluster))
    except ApiError as error:
        return error.code, error.message
    return None


def test_a_role_may_grant_what_its_writer_holds_there() -> None:
    cluster = Cluster(*READS_PODS)
    assert fault(cluster, role("new", rule("get", "pods"))) is None
    assert fault(cluster, role("new", rule("get", "pods"), namespace="other")) is not None
    assert fault(cluster, cluster_role("new", rule("get", "pods"))) is not None


def test_a_role_that_grants_more_is_refused_and_every_missing_permission_listed() -> None:
    assert fault(Cluster(*READS_PODS), role("new", rule("get delete", "pods secrets"))) == (
        403,
        'roles.rbac.authorization.k8s.io "new" is forbidden: user "jane" (groups=["system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}',
    )


def test_an_update_is_judged_by_all_that_it_would_grant() -> None:
    cluster = Cluster(*READS_PODS)
    old = role("r", rule("get", "pods"))
    assert fault(cluster, role("r", rule("list", "pods")), old) is None
    assert fault(cluster, role("r", rule("delete", "pods")), old) is not None


def test_the_garbage_collectors_change_needs_no_permission_but_a_label_does() -> None:
    """A label can make an aggregated role gather this one, so it grants."""
    old = cluster_role("r", rule("*", "*", groups=["*"]))
    assert fault(Cluster(), with_metadata(old, finalizers=["x"], ownerReferences=[]), old) is None
    assert fault(Cluster(), with_metadata(old, labels={"aggregate": "true"}), old) is not None


def test_the_verb_escalate_lifts_the_limit_for_the_role_it_names() -> None:
    may = rule("escalate", "roles", groups=[RBAC_GROUP], names="free")
    cluster = Cluster(role("e", may), binding("b", "e", to_user("jane")))
    assert fault(cluster, role("free", rule("delete", "secrets"))) is None
    assert fault(cluster, role("other", rule("delete", "secrets"))) is not None


def test_only_who_may_do_everything_may_aggregate() -> None:
    gathering = cluster_role("all", gathers="anything")
    found = fault(Cluster(*READS_PODS), gathering)
    assert found is not None
    assert "must have cluster-admin privileges to use an aggregationRule" in found[1]
    everything = cluster_role("root", rule("*", "*", groups=["*"]), rule("*", urls="*"))
    root = Cluster(everything, cluster_binding("b", "root", to_user("jane")))
    assert fault(root, gathering) is None
    # Neither may it be taken out of a role by others: that could hide what was gathered.
    assert fault(Cluster(*READS_PODS), cluster_role("all"), gathering) is not None


def test_a_binding_needs_the_permissions_of_its_role() -> None:
    strong = role("strong", rule("delete", "secrets"))
    cluster = Cluster(*READS_PODS, strong)
    assert fault(cluster, binding("new", "reads", to_user("joe"))) is None
    found = fault(cluster, binding("new", "strong", to_user("jane")))
    assert found is not None
    assert found[1].startswith('rolebindings.rbac.authorization.k8s.io "new" is forbidden: user "jane"')


def test_a_binding_to_an_aggregated_role_needs_what_that_gathers() -> None:
    part = cluster_role("part", rule("delete", "secrets"), labels={"to-all": "true"})
    cluster = Cluster(*READS_PODS, part, cluster_role("all", gathers="to-all"))
    assert fault(cluster, binding("new", "all", to_user("jane"), kind="ClusterRole")) is not None


def test_the_verb_bind_allows_binding_a_role_without_holding_it() -> None:
    may = rule("bind", "clusterroles", groups=[RBAC_GROUP], names="strong")
    cluster = Cluster(
        role("binder", may),
        binding("b", "binder", to_user("jane")),
        cluster_role("strong", rule("*", "*", groups=["*"])),
    )
    assert fault(cluster, binding("new", "strong", to_user("joe"), kind="ClusterRole")) is None
    assert fault(cluster, cluster_binding("new", "strong", to_user("joe"))) is not None


def test_a_binding_to_a_role_that_does_not_exist_is_not_found() -> None:
    assert fault(Cluster(), binding("new", "nowhere", to_user("joe"))) == (
        404,
        'roles.rbac.authorization.k8s.io "nowhere" not found',
    )


def test_masters_hand_out_what_they_like() -> None:
    everything = cluster_role("all", rule("*", "*", groups=["*"]), gathers="x")
    assert fault(Cluster(), everything, who=user("root", MASTERS)) is None


def test_a_role_of_another_group_is_none_of_our_business() -> None:
    check_escalation(
        JANE, kind_of("Role", "example.com"), role("r", rule("*", "*")), None, Authorizer(Cluster())
    )


def test_a_hostile_role_is_refused_without_being_spelled_out() -> None:
    many = " ".join(f"r{n}" for n in range(30_000))
    own = [role(f"own{n}", rule(f"v{n}", "pods")) for n in range(50)]
    bound = [binding(f"b{n}", f"own{n}", to_user("jane")) for n in range(50)]
    found = fault(Cluster(*own, *bound), role("huge", rule(many, many, names=many)))
    assert found is not None
    assert found[1].endswith("\n... too many to compare")


@pytest.mark.parametrize("broken", [{}, {"roleRef": None}, {"roleRef": {"kind": "Pod", "name": "x"}}])
def test_a_binding_without_a_proper_role_is_not_found_rather_than_an_error(broken: Obj) -> None:
    obj = {**binding("new", "x"), **broken} if broken else {"kind": "RoleBinding", "metadata": {}}
    found = fault(Cluster(), obj)
    assert found is not None
    assert found[0] == 404
