"""Fits what engines that generate text do to published speeds: `python -m tools.fit_language`."""
