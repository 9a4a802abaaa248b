"""What a sweep and a batch read to decide which emails are next."""
