"""Does it matter? The eternal questions of builders, each answered with one number for the user's own case."""
