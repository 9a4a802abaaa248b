"""The settings, the servers, the routes, and the options of an enqueue."""
