"""What a step is made of, what it loses time on, and what each fix would give. Knows the event table, not the files."""
