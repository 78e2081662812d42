"""Whether GPUs can stand, be fed and be kept cool in one machine: checks with a number and a remedy each."""
