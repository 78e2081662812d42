"""Ways to divide a step: samples, matrices, layers; what each rank runs and sends."""
