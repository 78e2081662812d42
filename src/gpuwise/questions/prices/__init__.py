"""What do GPUs cost, and how old is that price?"""
