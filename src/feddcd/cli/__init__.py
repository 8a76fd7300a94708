"""The command line: `app` lists the commands; what a command does is imported when it is called."""
