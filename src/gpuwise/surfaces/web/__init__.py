"""The page and its JSON API: the same questions and answers as on the command line, served to this machine only."""
