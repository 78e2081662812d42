"""Which GPUs exist, and what is known about them?"""
