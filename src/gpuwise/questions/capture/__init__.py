"""What does a model ask of a GPU?"""
