"""Update: changing the limits of a container or of a utility VM."""
