"""One file a check, named for the problem it sees. Its docstring is its page in the docs; `registry.py` lists them all."""
