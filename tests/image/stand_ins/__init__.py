"""Images for an engine without a registry: each stands in for one that compose.yaml names."""
