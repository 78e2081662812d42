"""Why was this training slow? From profiler files."""
