"""`runhcs record`: one file with what shims do, and reading such a file."""
