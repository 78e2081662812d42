"""Short measured runs on this machine's device: a model's step, or a script, as it is and with settings changed."""
