"""One file per check, named after the problem it finds. Its docstring is its page in the docs; `registry.py` lists them all."""
