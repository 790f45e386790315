"""The simulated world: processes, network, store, faults, one clock; and the scenarios run in it.

    scenario            a scenario, and one run of it
    world               what a scenario's code calls: apply, crash, sleep, settle
    engine              one clock; which input comes when; crashes, pauses, skewed clocks
    process, servers    simulated processes; the API servers among them
    controllers         controllers of the kit as a process
    network             requests, replies and watches between processes, with their faults
    store_link          commits and reads between an API server and the store, with their faults
    faults              every kind of fault: its fields, and how it is drawn
    fault_menu          which faults a scenario may get
    active_faults       which faults are active now: network, store_link and engine ask it
    invariants          checks after every commit; `violation` is what they report
    oracle              the order of inputs: first in first out, random, by priority, or as recorded
    trace               a digest of a run, to compare two of them
    *_guard             code of a process that reaches outside, or changes a shared object

A new kind of fault: a class and a line of `MAKERS` in `faults`; its effect in network, store_link or engine.
"""
