"""Language models described by their sizes alone: no framework is needed to know what one pass of a decoder computes and
holds.
"""
