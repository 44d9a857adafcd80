//! Repository checks, run as `cargo xtask tidy`.

fn main() {}
