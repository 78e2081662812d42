"""Shared foundations: errors, units, provenance, files, processes and text."""
