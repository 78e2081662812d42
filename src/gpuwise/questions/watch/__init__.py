"""Why is the training that runs here slow?"""
