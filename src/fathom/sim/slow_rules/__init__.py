"""The scheduler's rules once more, slow and obvious: plain loops over the JSON objects, node by node and pod
by pod. What the scheduler decides is compared with them.

They share with the real ones only how selectors match, how quantities are read, and the words of the reasons.
What is vectorised, cached or kept up to date over there is worked out from scratch here, every time.
"""
