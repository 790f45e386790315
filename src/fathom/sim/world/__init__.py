"""The simulated world: processes, network, store, faults, one clock; and scenarios told in it."""
