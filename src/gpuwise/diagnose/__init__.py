"""Diagnoses a run from its event table: what a step consists of, where it loses time, and what each fix would gain."""
