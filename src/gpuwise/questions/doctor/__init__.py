"""What is installed on this machine, and does gpuwise know its GPUs?"""
