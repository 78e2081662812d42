"""Does it matter? One number for the user's own case, topic by topic."""
