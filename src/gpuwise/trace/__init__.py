"""Reads profiler files into one columnar event table. It handles file formats and does not interpret the events."""
