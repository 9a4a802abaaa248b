"""The lookup: finds emails by an address or a Message-ID, and forgets them when they go."""
