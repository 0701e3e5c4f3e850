"""The consumers compared: one thin module each, all with the same methods, each member a process of its own."""
