"""Messages to try the library with: CPython's nasty ones, and ours with what each was to say."""
