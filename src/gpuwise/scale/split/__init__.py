"""Ways to divide a step (by samples, matrices or layers), and what each rank runs and sends."""
