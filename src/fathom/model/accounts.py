"""fathom's own accounts, and the lease that an account must hold for its writes to be accepted.

scheduler, controllers   fenced: two of them may run, and only the one that leads may write
gateway                  not fenced: each one reports what it reaches itself, and decides nothing
housekeeping             not fenced: it runs in the API server, and its writes expect the revisions it read
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
# Who may ask for the certificate of a new node.
BOOTSTRAPPERS, NODE_BOOTSTRAPPER = (
    "system:bootstrappers",
    "system:serviceaccount:kube-system:node-bootstrapper",
)
ACTOR_CHARS_MAX = 512  # 'agent/' and the longest name of a node, with room to spare.

SCHEDULER, CONTROLLERS = f"{PREFIX}scheduler", f"{PREFIX}controllers"
GATEWAY, HOUSEKEEPING = f"{PREFIX}gateway", f"{PREFIX}housekeeping"
API_SERVER = f"{PREFIX}apiserver"  # As a client of agents, and of processes whose metrics it reads.

# Account -> the lease it must hold. The account's leases for other names and shards have this name with a
# dash and a suffix: fathom-system/scheduler-0of2.
LEASES = {
    SCHEDULER: Key(SYSTEM_NAMESPACE, "scheduler"),
    CONTROLLERS: Key(SYSTEM_NAMESPACE, "controllers"),
}

# The ClusterRole that lets the controllers scale custom kinds: its rules are derived from the definitions.
SCALE_ROLE = f"{PREFIX}scale"

# The account that makes RepairProposals: repair is one of the controllers.
REPAIR = CONTROLLERS


def lease_of(account: str) -> Key | None:
    """The lease without which the server rejects the account's writes; None if it needs none. A service
    account in fathom's namespace needs the lease of its own name."""
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


def believed_actor(user: User, claimed: str) -> str:
    """The part of fathom that a write claims to come from, if the account may claim it; else ''. An account
    may name itself and what is below it: 'controllers' and 'controllers/deployment'. A scheduler that runs
    beside others has its name with a suffix: 'scheduler-0of2'."""
    if not claimed or len(claimed) > ACTOR_CHARS_MAX or not is_own(user):
        return ""
    if user.name.startswith(NODE_USER):
        return claimed if claimed == f"agent/{user.name[len(NODE_USER) :]}" else ""
    own = user.name.removeprefix(PREFIX).removeprefix(SERVICE_ACCOUNTS)
    return claimed if claimed == own or claimed.startswith((f"{own}/", f"{own}-")) else ""


def is_own(user: User) -> bool:
    """Whether the account is fathom's own, not a person's or a tenant's."""
    return is_own_name(user.name) or NODES in user.groups


def is_own_name(name: str) -> bool:
    """The same, where only the account's name is known."""
    return name.startswith((PREFIX, SERVICE_ACCOUNTS, NODE_USER))
