"""The `gpuwise` command: it parses the options, calls the Python API and prints the result."""
