"""fathom's own accounts, and the lease that an account must hold for its writes to be taken.

scheduler, controllers   fenced: two of them may run, and only the one that leads may write
gateway                  not fenced: each one reports what it reaches itself, and decides nothing
housekeeping             not fenced: it lives in the API server, and its writes expect the revisions it read
nodes (system:node:…)    not fenced: an agent writes only about its own node, whose lease is its own
apiserver                writes nothing to the API: it is a client of the agents
"""

from __future__ import annotations

from fathom.model.objects import Key
from fathom.model.user import User

PREFIX = "system:fathom:"
SYSTEM_NAMESPACE = "fathom-system"
SERVICE_ACCOUNTS = f"system:serviceaccount:{SYSTEM_NAMESPACE}:"
NODES, NODE_USER = "system:nodes", "system:node:"

SCHEDULER, CONTROLLERS = f"{PREFIX}scheduler", f"{PREFIX}controllers"
GATEWAY, HOUSEKEEPING = f"{PREFIX}gateway", f"{PREFIX}housekeeping"
API_SERVER = f"{PREFIX}apiserver"  # As a client of agents, and of processes that it asks for metrics.

# Account -> the lease it must hold. Further leases of the account, of other names and shards, have this one's
# name with a dash and more: fathom-system/scheduler-0of2.
LEASES = {
    SCHEDULER: Key(SYSTEM_NAMESPACE, "scheduler"),
    CONTROLLERS: Key(SYSTEM_NAMESPACE, "controllers"),
}

# The ClusterRole by which the controllers scale custom kinds: its rules follow the definitions.
SCALE_ROLE = f"{PREFIX}scale"

# Who makes RepairProposals: repair runs among the controllers.
REPAIR = CONTROLLERS


def lease_of(account: str) -> Key | None:
    """The lease without which nothing that the account writes is taken; None where it needs none. A service
    account in our namespace holds the one that has its name."""
    if account.startswith(SERVICE_ACCOUNTS):
        return Key(SYSTEM_NAMESPACE, account[len(SERVICE_ACCOUNTS) :])
    return LEASES.get(account)


def is_lease_for(wanted: Key, shown: Key) -> bool:
    """Whether a lease is the wanted one, or one of its shards and names."""
    if shown.namespace != wanted.namespace:
        return False
    return shown.name == wanted.name or shown.name.startswith(f"{wanted.name}-")


def node_user(node: str) -> User:
    return User(f"{NODE_USER}{node}", (NODES,))


def is_own(user: User) -> bool:
    """Whether it is an account of fathom's own, not a person's or a tenant's."""
    return user.name.startswith((PREFIX, SERVICE_ACCOUNTS)) or NODES in user.groups
