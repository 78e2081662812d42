"""What everything else rests on: errors, units, provenance, files, processes, text."""
