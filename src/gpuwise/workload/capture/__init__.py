"""Captures a model without a GPU or weights. Each kind of source has a folder, and frameworks are imported only here."""
