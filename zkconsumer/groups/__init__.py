"""Groups of both worlds, seen from outside: read, judged, moved. What the tools are made of; commands only print it."""
