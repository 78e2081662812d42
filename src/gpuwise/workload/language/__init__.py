"""Language models from their sizes alone: no framework is needed to know what one pass of a decoder computes and holds."""
