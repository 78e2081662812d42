"""Plans: how a model is divided over a cluster, what each costs, and the search for the best."""
