"""What consumers read and write in ZooKeeper as one file: taken from production, loaded into a sandbox."""
