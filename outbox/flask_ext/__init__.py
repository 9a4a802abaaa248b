"""The public interface: the Flask extension, the drop-in for Flask-Mail, and the commands."""
