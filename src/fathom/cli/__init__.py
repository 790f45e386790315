"""The command line: `fathom`, also installed as `kubectl-fathom`.

Here: arguments, output, exit codes. Never here: what a command does; each calls one function of another room
and imports it only when it runs, so that `fathom --help` stays quick and `fathom up` pays for nothing it does
not use. There is no next room: the user reads the output.
"""
