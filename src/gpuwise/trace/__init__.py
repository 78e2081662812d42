"""Reading profiler files into one columnar event table. Knows file formats; has no opinion on what it reads."""
