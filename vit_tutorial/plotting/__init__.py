"""One figure a function: arrays in, a matplotlib `Figure` out. Nothing is measured here."""
