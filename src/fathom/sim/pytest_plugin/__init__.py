"""Runs scenarios as pytest tests. The plugin's hooks are in `fathom.sim.plugin`."""
