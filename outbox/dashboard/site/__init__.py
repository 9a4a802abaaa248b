"""What all pages share: the blueprint with its rules, the templates, and how values are printed."""
