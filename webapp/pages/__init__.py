"""The pages of the shop: views, their forms, and what every answer carries."""
