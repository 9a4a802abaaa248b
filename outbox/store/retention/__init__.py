"""Removes what is past its retention: whole emails, and the bodies of emails that stay."""
