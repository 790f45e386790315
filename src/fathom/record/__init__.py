"""Records: the audit log, the decision journal, the flight recorder (tape) and its replay.

Here: appending to bounded files and reading them back, also after a crash; hosting a process so that it is
recorded; replaying a tape with the code that made it. Never here: decisions, or judgement of what is read. A
lost record is counted and logged, and stops nothing.
"""
