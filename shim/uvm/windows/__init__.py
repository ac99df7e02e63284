"""Windows guests (WCOW)."""
