"""Arguments in, exit code out: the `ulr` command, one file per subcommand.

In: argv. Out: text for people or one JSON document for scripts. May import every room, and is the
only one that prints.
"""
