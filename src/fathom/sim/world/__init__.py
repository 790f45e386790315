"""The simulated world: processes, network, store, faults, one clock; and the scenarios run in it."""
