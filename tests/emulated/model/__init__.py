"""Model-based tests of real shims: the task API, and what `delete` leaves."""
