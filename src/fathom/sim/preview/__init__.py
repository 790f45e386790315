"""Previews: an object is tried in forks of a state, and what it changes is counted.

    ClusterState ──fork, seed by seed──┬──> without it ──> Outcome ──> Outcome after its end
                                       └──> with it    ──> Outcome ──> Outcome after its end
    outcomes ──difference (pure)──> which counts it changes, with their spread over the seeds

`futures` runs the forks, `counting` counts, `difference` compares, `touched` says what the answer depends on,
`answer` puts it together, and `worker` does it in a process of its own for the API server.
"""
