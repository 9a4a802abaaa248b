"""What was written while the database's clock was ahead: it is corrected once that is set back."""
