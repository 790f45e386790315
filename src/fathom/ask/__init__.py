"""Answers questions about objects: collects the evidence, hands it to `explain/`, returns the answer.

    POST explanations ──> may the user get the subject? ──> which records are wanted (explain: pure)
        └──> journals and states of the processes, objects, audit log ──> the answer (explain: pure)

Every registered process is asked at once; one that does not answer in time is a gap, and the answer says
"no data". Nothing here decides or explains anything, and nothing is stored.
"""
