"""The same question about many models or many traces: spread over processes or a cluster, kept part by part, continued."""
