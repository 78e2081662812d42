"""The interfaces to the questions: the command line, the web page, notebooks."""
