"""Facts about GPUs, architectures, links, nodes and hosts, each with its source."""
