"""Captures a model without a GPU and without weights: one folder for each kind of source. Frameworks are imported only here."""
