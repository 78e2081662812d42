"""One file per check, named after the problem it finds. Its docstring is its part of the page in the docs."""
