"""One file for each profiler file format. Each reader yields the events of a file; `trace/read.py` chooses one."""
