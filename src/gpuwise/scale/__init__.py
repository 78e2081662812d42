"""Several GPUs of one kind on one step."""
