"""What things cost, and what the box must carry."""
