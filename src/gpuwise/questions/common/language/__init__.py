"""Code shared by questions about generated text: their options, their defaults, and the answer in tokens."""
