"""What happened, kept: the audit log; later the decision journal and the flight recorder.

Here: appending to bounded files and reading them back. Never here: judging what is read. An entry is a record
of something that was decided elsewhere; losing one is counted and said, and stops nothing.
"""
