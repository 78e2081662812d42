"""Will it fit, what is the largest batch, and what to do if not?"""
