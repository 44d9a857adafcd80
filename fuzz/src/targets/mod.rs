//! The targets: each runs one part of the server on an input, and panics if a property of it does not hold.

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
    rdata,
    rdata_text,
    scrub,
    signed_update,
    synthesis,
    transfer_in,
    tsig,
    update,
    validate,
);

/// Returns the function of the target with this name.
pub(crate) fn find(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(other, _)| *other == name).map(|(_, run)| *run)
}
