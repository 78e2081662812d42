"""The `gpuwise` command: reads the question, asks the API, prints the answer. One file a command."""
