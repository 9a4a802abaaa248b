"""The soak: a whole system under load, at random killed, cut, frozen and misled, and then audited.

`make soak MINUTES=30` runs it. Nothing in `audit`, `facts` and `wire` knows the library.
"""
