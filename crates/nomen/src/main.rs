//! The `nomen` program: selects the allocator, and runs the command line.
#![forbid(unsafe_code)]

mod cli;

/// Many threads allocate zones in many small pieces and free them at reloads: mimalloc does both well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run()
}
