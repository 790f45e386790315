"""Why an object is not as wanted: one file per kind of subject. Pure functions from Evidence to Explanation.

`kinds.py` has the table of kinds and the entry points. Pods are explained in `explain/why.py`; the functions
here take that function as a parameter, and without it explain pods from their status alone (`pod_causes.py`).
"""
