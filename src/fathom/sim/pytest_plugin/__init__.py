"""What pytest does with scenarios. The plugin's hooks are in `fathom.sim.plugin`."""
