"""How wrong are the predictions, on machines and models they had never seen?"""
