"""Long runs: spread over processes or a cluster, saved part by part, and resumed where they stopped."""
