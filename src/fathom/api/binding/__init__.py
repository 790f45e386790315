"""Binding: checks a scheduling decision, made from caches, against the current state, and commits it.

    requests           what a caller asks for, from a Binding or an item of a BindingBatch; the answers
    facts              nodes, quotas, classes, policies and overrides, parsed once per revision
    checks             the predicates: a refusal that names its check, or the pod as it will be stored
    binder             queues and transactions: binds that wait for the same tenant's account share a commit
    pending            a view that includes the writes of the commit being assembled
    created_with_node  the same predicates for pods and reservations that get their node in another way
    placing            the admission plugins that apply those to every write of a pod or a reservation

The HTTP side is `api/subresources/binding.py`.
"""
