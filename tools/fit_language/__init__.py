"""Fits the constants of text-generation engines to published speeds: `python -m tools.fit_language`."""
