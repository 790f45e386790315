"""What `why` proposes for waiting pods, against brute force over single changes.

    random_cluster   a cluster at rest with one pod that waits, drawn from a seed
    candidates       every single change that might help, as plain JSON, from the objects alone
    resources        the kinds of objects that are changed
    typed            a change made through the API: a candidate's, or the command that `why` prints
    trials           a fork for each change: is the pod bound at the end? The least amount, by bisection
    compare          the answer against what the trials have found

Nothing here imports the scheduler's deciders or the code that explains, except `compare`, which asks `why`.

    python -m fathom.sim.single_changes --seeds 0..200
"""
