"""The questions gpuwise answers, one folder each. Questions do not know each other; what several need is in `common`."""
