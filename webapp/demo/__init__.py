"""`make demo`: the whole shop with its servers, all in one folder that goes with it."""
