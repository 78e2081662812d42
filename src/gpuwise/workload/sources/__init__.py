"""Ways to capture a model. Each source turns a name into a workload; frameworks are imported only here, when used."""
