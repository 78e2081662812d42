"""What questions about generated text share: their options, their defaults, and the answer in tokens."""
