"""Does a model fit, what is the largest batch, and what makes it fit if it does not?"""
