"""ReplicaSets: as many pods as asked for.

`plan` says how many and which; `scale_down_order` which are deleted first.
"""
