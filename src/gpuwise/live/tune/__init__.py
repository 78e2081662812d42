"""Short measured runs on this machine's device: a model's step or a script, unchanged and with changed settings."""
