"""`runhcs trace`: the lifecycle of a container as a timeline, in the terminal or as a page."""
