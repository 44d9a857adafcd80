//! `nomen query` as a replacement of dig: dig's exit statuses, and a program named `dig`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A response was received, whatever its response code.
pub const OK: u8 = 0;
/// The command line was wrong.
pub const USAGE: u8 = 1;
/// The file of queries could not be read.
pub const FILE: u8 = 8;
/// No server answered.
pub const NO_REPLY: u8 = 9;
/// Something else failed.
pub const INTERNAL: u8 = 10;

/// Returns whether the program was called as dig.
pub fn is_called_dig() -> bool {
    std::env::args_os().next().is_some_and(|program| is_dig(&program))
}

fn is_dig(program: &OsStr) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == "dig")
}

/// Returns the command line for these arguments: a program called as dig is `nomen query --dig`.
pub fn command_line(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.first().is_some_and(|program| is_dig(program)) {
        let query = ["nomen", "query", "--dig"].map(OsString::from);
        arguments.splice(..1, query);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_called_dig_asks_queries() {
        let line = |words: &[&str]| {
            let line = command_line(words.iter().map(OsString::from).collect());
            line.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line(&["/usr/local/bin/dig", "-x", "192.0.2.1"]), "nomen query --dig -x 192.0.2.1");
        assert_eq!(line(&["nomen", "query", "dig"]), "nomen query dig");
        assert_eq!(line(&["digger", "query"]), "digger query");
    }
}
