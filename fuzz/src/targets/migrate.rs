//! Configurations of other servers: any text is converted or rejected, and all reported positions are in it.
//!
//! docs/MIGRATION.md: "No statement is dropped in silence." And RFC 1034 §3.1 limits names to 255 octets:
//! whatever a zone is called in the text, `nomen` accepts or rejects the output, and never aborts.

use std::io;
use std::path::Path;

use config::read_text;
use migrate::{Files, PeerProgram, convert};

/// A file system with one text under one name.
struct One<'t>(&'t [u8]);

impl Files for One<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path == Path::new("/c") { Ok(self.0.to_vec()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
    fn names(&self, _: &Path) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

pub(crate) fn run(data: &[u8]) {
    let Some((first, text)) = data.split_first() else { return };
    let program = match first % 10 {
        0 => Some(PeerProgram::Bind),
        1 => Some(PeerProgram::Nsd),
        2 => Some(PeerProgram::Knot),
        3 => Some(PeerProgram::Unbound),
        4 => Some(PeerProgram::PowerDns),
        5 => Some(PeerProgram::Recursor),
        6 => Some(PeerProgram::AdGuard),
        7 => Some(PeerProgram::PiHole),
        8 => Some(PeerProgram::Dnsdist),
        _ => None,
    };
    let (texts, spans) = match convert(Path::new("/c"), program, &One(text), Path::new("/lists")) {
        Ok(converted) => {
            let _ = read_text("nomen.toml", converted.toml.clone(), Path::new("/nonexistent"));
            assert!(toml_lines(&converted.toml), "a line of the output is no TOML:\n{}", converted.toml);
            let spans = converted.accounts.into_iter().filter_map(|account| account.span).collect();
            (converted.texts, spans)
        }
        Err(unreadable) => (unreadable.texts, Vec::from_iter(unreadable.fault.span)),
    };
    for span in spans {
        let text = texts.get(span.text).map(|text| text.text.as_str());
        assert!(text.is_some_and(|text| text.get(span.range.clone()).is_some()), "{span:?}");
    }
}

/// Whatever was in a string, each line is a header, a key, an array element, a comment or empty.
fn toml_lines(toml: &str) -> bool {
    toml.lines().all(|line| {
        let first = line.trim_start().chars().next();
        first.is_none_or(|c| c.is_ascii_lowercase() || matches!(c, '[' | ']' | '"' | '#'))
    })
}
