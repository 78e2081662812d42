"""What do GPUs cost, and how old are the prices?"""
