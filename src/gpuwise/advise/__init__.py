"""Joins the parts into advice: what fits, and what to do where it does not."""
