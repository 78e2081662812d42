"""Programs that generate images or transcripts: the questions about them, and the answers."""
