"""Do more GPUs help, and how should the work be split?"""
