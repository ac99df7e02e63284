"""What is measured: one module per measure."""
