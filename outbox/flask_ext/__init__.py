"""The face: the Flask extension, the drop-in for Flask-Mail, and the commands."""
