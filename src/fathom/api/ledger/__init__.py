"""The ledger: what is held on every node and by every tenant, in the same store and the same commits as the
pods and reservations that hold it.

    holdings  what one pod or reservation holds, read off it alone
    delta     what a write changes: ledger_delta(old, new)
    books     the accounts of a node, a tenant, an intent; what a commit must expect of them and write
    counting  the same sums from all the objects, to compare with, to start from
    charged   which reservation's pod a ResourceQuota is charged for already
    keeper    the admission plugin that joins the ledger to every write
    settling  a store without a ledger, or with a wrong one, is put right

Books are keys under /registry/ like objects, so every server's cache follows them; no kind is served for
them, so nobody outside can address them. Next room: `api/binding`, which decides what may be charged.
"""
