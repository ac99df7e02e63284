"""Long runs of the model-based tests and of the fuzzers: `make fuzz`. Short ones are part of the test levels."""
