"""Long work: spread over processes or a cluster, kept part by part, continued where it stopped."""
