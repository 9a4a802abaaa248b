"""Measurements beside the peers, in one run on one machine: ratios hold where figures drift."""
