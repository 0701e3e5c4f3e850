"""Commands of the zkconsumer script: one a module, each with EXAMPLES, add_arguments() and run()."""
