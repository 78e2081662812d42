"""Draws tables in a terminal, charts and files. Independent of the questions."""
