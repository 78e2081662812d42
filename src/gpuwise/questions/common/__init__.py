"""Code shared by several questions: a model on GPUs as a user gives it, predictions with what they are based on, and
diagnosis.
"""
