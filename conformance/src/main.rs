//! Black-box comparison of authoritative servers.

fn main() {}
