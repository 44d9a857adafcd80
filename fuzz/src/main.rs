//! Fuzz targets: random inputs for the parsers and state machines of the server. `fuzz/run-all` runs them.
//!
//! With the feature `coverage` this is a program of libFuzzer, which finds new inputs by the code that they
//! reach; the environment variable `FUZZ_TARGET` names the target. Without it the program changes the inputs
//! of the corpus by itself, blindly: that takes no build of its own, and is enough for a short run.

#![cfg_attr(feature = "coverage", no_main)]
#![forbid(unsafe_code)]

mod targets;
mod zones;

#[cfg(not(feature = "coverage"))]
mod blind;
#[cfg(not(feature = "coverage"))]
mod mutation;

#[cfg(not(feature = "coverage"))]
fn main() -> std::process::ExitCode {
    blind::main()
}

#[cfg(feature = "coverage")]
mod coverage {
    //! The entry of libFuzzer.

    use std::sync::LazyLock;

    use libfuzzer_sys::fuzz_target;

    static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        crate::targets::find(&name).unwrap_or_else(|| panic!("FUZZ_TARGET: there is no target '{name}'"))
    });

    fuzz_target!(|data: &[u8]| TARGET(data));
}
