"""How many emails go at which time: claims, lanes, token buckets and delays."""
