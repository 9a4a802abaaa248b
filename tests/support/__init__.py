"""What tests stand on: servers, shops, systems, case tables, and how tests share a machine."""
