"""What does a model need from a GPU?"""
