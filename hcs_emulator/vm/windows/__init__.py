"""The Windows guest of a utility VM: its guest compute service (GCS), containers and resources."""
