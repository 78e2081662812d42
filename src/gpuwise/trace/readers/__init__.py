"""One file for each file format that profilers write. Each yields the events of a file; `trace/read.py` chooses one."""
