"""Binding: where a decision made from caches is proven on what is true now, and becomes so.

    asking   what a caller wants, from a Binding or an item of a BindingBatch
    facts    what nodes, quotas, classes, policies and overrides say, worked out once per revision
    judging  the predicates: a refusal that names its check, or the pod as it will be
    binder   turns and transactions: binds that wait for the same tenant's account share a commit
    pending  what the commit that is being put together has changed already
    created  the same predicates for what gets its node in another way
    placing  the admission plugins that hold those against every write of a pod or a reservation

The HTTP side is `api/subresources/binding.py`.
"""
