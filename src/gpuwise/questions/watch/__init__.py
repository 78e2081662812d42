"""Why is the training run on this machine slow?"""
