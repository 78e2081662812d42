"""Which GPUs are there, and what is known of them?"""
