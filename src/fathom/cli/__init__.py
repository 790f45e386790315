"""The command line: `fathom`, also installed as `kubectl-fathom`.

Here: arguments, output, exit codes. Never here: what a command does; each calls one function of another
package and imports it only when it runs, so that `fathom --help` stays quick and `fathom up` loads nothing
that it does not use. Nothing imports this package: the user reads its output.
"""
