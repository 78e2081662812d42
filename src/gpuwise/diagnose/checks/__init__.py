"""One file a check, named for the problem it sees. Its docstring is its part of the docs; `registry.py` runs them all."""
