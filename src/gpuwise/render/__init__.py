"""How anything is drawn: tables in a terminal, charts, files. Knows no question."""
