"""The user's own code: a model by name, or a whole training script. It runs only when the user names it."""
