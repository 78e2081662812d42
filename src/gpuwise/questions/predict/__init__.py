"""How fast will a model run on a GPU, and what limits it?"""
