"""What happened, kept: the audit log, the decision journal, the flight recorder and its replay.

Here: appending to bounded files and reading them back, also after a crash; hosting a process so that it is
recorded; feeding a tape to the code that made it. Never here: judging what is read. An entry is a record of
something that was decided elsewhere; losing one is counted and said, and stops nothing.
"""
