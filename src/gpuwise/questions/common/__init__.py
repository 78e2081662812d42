"""What several questions share: a model on GPUs as a user gives it, predictions with what they rest on, diagnosis."""
