//! nomen and its peers, side by side, in one run.

fn main() {}
