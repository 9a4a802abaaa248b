"""Measures this project beside its peers, in one run on one machine.

The figures drift from run to run, but their ratios hold.
"""
