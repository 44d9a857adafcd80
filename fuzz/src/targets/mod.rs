//! The targets: each runs one part of the server on an input, and panics if a property of it does not hold.

use std::sync::atomic::{AtomicU64, Ordering};

/// Declares the modules and the table of their functions.
macro_rules! targets {
    ($($name:ident),+ $(,)?) => {
        $(mod $name;)+

        /// Each target's name, which is that of its module and its corpus, and its function.
        pub(crate) const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name::run)),+];
    };
}

targets!(
    cache,
    configuration,
    edns,
    engine,
    frame_streams,
    groups,
    http3,
    image,
    journal,
    key_files,
    master_file,
    message,
    migrate,
    name,
    policy,
    proxy_header,
    queries,
    rdata,
    rdata_text,
    scrub,
    signed_response,
    signed_update,
    signing_request,
    synthesis,
    transfer_in,
    tsig,
    update,
    validate,
);

/// Inputs beyond one for each call of a target's function: a target may make several from one.
static MORE: AtomicU64 = AtomicU64::new(0);

/// Counts inputs that a target has made besides the first.
fn add_inputs(count: u64) {
    MORE.fetch_add(count, Ordering::Relaxed);
}

/// Returns how many inputs targets have made beyond one for each call.
#[cfg(not(feature = "coverage"))]
pub(crate) fn more_inputs() -> u64 {
    MORE.load(Ordering::Relaxed)
}

/// Returns the function of the target with this name.
pub(crate) fn find(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(other, _)| *other == name).map(|(_, run)| *run)
}
