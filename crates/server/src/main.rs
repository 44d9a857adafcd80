//! The `nomen` binary: reads the command line and runs the verb.

fn main() {}
