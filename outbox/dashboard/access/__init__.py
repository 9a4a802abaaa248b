"""Who may see the dashboard, who may act there, and that a form was sent from one of its pages."""
