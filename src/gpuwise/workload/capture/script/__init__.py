"""The user's own code: a model by name, or a whole training script. It runs only if the user names it."""
