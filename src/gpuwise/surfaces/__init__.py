"""Where questions are asked: the command line, the page, notebooks."""
