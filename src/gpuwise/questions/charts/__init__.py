"""How fast is every GPU, and how fast for its price?"""
