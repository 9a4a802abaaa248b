"""Whose fault a failure is: suspicions against servers, and the emails that decide them."""
