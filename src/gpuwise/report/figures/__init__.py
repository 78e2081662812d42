"""Charts: an answer becomes a `Figure` of plain values, and that becomes SVG, HTML or PNG. No drawing library."""
