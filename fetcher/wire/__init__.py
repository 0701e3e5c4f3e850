"""Requests to brokers and their answers, as bytes: versions in, values out; no connection here."""
