"""Reports of runs: chronicle, timeline, files of kept runs, replay."""
