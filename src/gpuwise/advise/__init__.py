"""Turns predictions into advice: remedies that make a model fit, and options to buy, rent or keep."""
