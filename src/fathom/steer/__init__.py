"""Runbooks: procedures that a client carries out for a person, with the person's own credentials.

Here: conditions, the next instruction of a run, its record, the runner, the report, the library of runbooks
(`library/*.yaml`). Never here: a server that acts for somebody, or a rule that an API server enforces.

    plan_run.next_instruction (pure) ──instruction──> runner ──> actions, observations ──> the API
              ^                                         │
              └───────────── RunbookRun.status <────────┘

Next room: `cli`."""
