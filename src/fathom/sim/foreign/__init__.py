"""Programs that were not written for fathom, as processes of a world: kopf operators, scripts, any client.

    the program ──> its threads (greenlets) and event loops ──blocking call──> Machine ──Seam──> the network
                    time, random, socket, threading, signal  ──patches.py──> Machine

A foreign process runs unmodified code. Everything that such code takes from an operating system comes from
its `Machine`: clocks, randomness, names, signals, sockets, threads. Threads are greenlets, which take turns
where they wait; the world decides when a wait is over, so two runs of a seed are the same.

    machine.py       one incarnation of a foreign process, and its answers to calls of the operating system
    threads.py       threads and what they wait for
    locks.py         locks and queues; processes.py: those of multiprocessing
    event_loop.py    asyncio's loop, in a thread
    connections.py   HTTP/1.1 to the API server that the process talks to
    hosts.py         other hosts, which the test answers for; commands.py: child processes, likewise
    sockets.py       sockets over such connections, for code that blocks; transports.py: for event loops
    native_clients.py   clients that connect from C, which are refused
    patches.py       how calls of the standard library reach the machine
    service_account.py  what a Pod finds of its cluster; tls.py: https, which is plain here
    imports.py       a program as a new interpreter would import it, at each start
    interpreter_end.py   what is left to do when the program's first thread has ended
    programs.py      `run_program`, `run_operator`

Here: nothing of the code under test. Never here: a way from a foreign program to the real network or clock.
"""
