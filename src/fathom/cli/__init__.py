"""The command line: `fathom`, also installed as `kubectl-fathom`.

Here: words in, words out, exit codes. Never here: what the words mean; each command calls one function of
another room and imports it only when it runs, so that `fathom --help` stays quick and `fathom up` pays for
nothing it does not use. There is no next room: a person reads what comes out.
"""
