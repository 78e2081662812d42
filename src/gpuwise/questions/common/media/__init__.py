"""Programs that make images or transcripts: what is asked of them, and what is answered."""
