"""The overview: whether all is well, and what to do where it is not; live figures and charts."""
