"""`runhcs soak`: containers for hours, and whether anything grows or gets lost."""
