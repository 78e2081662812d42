"""What is on this machine, and does gpuwise know its GPUs?"""
