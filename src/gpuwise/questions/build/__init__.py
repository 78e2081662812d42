"""Will these GPUs work in that machine?"""
