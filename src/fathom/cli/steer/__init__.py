"""The commands that steer: override, runbook, repair."""
