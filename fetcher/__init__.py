"""The part that talks to brokers: connections, fetchers, message sets, queues."""
