//! The `nomen` program: picks the allocator, and runs the command line.
#![forbid(unsafe_code)]

mod cli;

/// Zones are built by many threads in many small pieces, and given back at reloads: mimalloc does both well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run()
}
