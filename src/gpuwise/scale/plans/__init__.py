"""Plans: how to divide a model over a cluster, the cost of each way, and the search for the best."""
