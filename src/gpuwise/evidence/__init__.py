"""Published measurements, and how far the predictions are from them."""
