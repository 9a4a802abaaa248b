"""Encrypts what a message says before it is stored, and decrypts it where it is read."""
