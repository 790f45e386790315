"""The ledger: what is held on every node and by every tenant, stored in the commits that change it.

It is in the same store and the same commits as the pods and reservations that hold the room.

    holdings       what one pod or reservation holds, computed from the object alone
    delta          what a write changes: ledger_delta(old, new)
    accounts       the accounts of a node, a tenant, an intent; a commit's preconditions and writes on them
    counting       the same sums computed from all objects, to compare with and to start from
    room           whether a holding fits on a node and within a tenant's limits
    quota_charges  the pod for which a reservation's ResourceQuota is already charged
    recharge       a pod whose override has ended: from its account to the tenant's ordinary one
    admission      the admission plugin that updates the ledger with every write
    recount        corrects a store without a ledger, or with a wrong one
    reporting      a TenantQuota's status, from its tenant's account

Accounts are keys under /registry/ like objects, so every server's cache follows them; no kind is served for
them, so API clients cannot address them. Next package: `api/binding`, which decides what may be charged.
"""
