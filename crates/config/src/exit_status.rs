//! Exit statuses of the `nomen` program.

/// Success.
pub const EXIT_OK: u8 = 0;
/// The verb completed and found faults: a bad configuration or zone, an answer other than NOERROR or
/// NXDOMAIN.
pub const EXIT_FAULTS: u8 = 1;
/// The command line was wrong; clap's own code.
pub const EXIT_USAGE: u8 = 2;
/// Something outside failed: no server answered, a file could not be read, or an address could not be opened.
pub const EXIT_OUTSIDE: u8 = 3;
