"""Which of these GPUs is faster, and why?"""
