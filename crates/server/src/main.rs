//! The `nomen` program: picks the allocator, and hands the command line to `server::cli`.
#![forbid(unsafe_code)]

/// Zones are built by many threads in many small pieces, and given back at reloads: mimalloc does both well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    server::cli::run()
}
