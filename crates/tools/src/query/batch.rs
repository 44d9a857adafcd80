//! A file of queries for `nomen query -f`: each line has the words of one or more queries. Lines that begin
//! with `#` or `;` are comments.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::words::{self, Wanted, WordFault};
use crate::args::QueryArgs;
use config::exit_status::{EXIT_OUTSIDE, EXIT_USAGE};
use wording::reason;

/// The name of standard input.
const STDIN: &str = "-";

/// Why a file of queries cannot be used. No query was sent.
#[derive(Debug)]
pub enum BatchFault {
    /// It cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A line has a fault.
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault.
        fault: WordFault,
    },
}

impl BatchFault {
    /// The program's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unreadable(..) => EXIT_OUTSIDE,
            Self::Line { .. } => EXIT_USAGE,
        }
    }
}

impl fmt::Display for BatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => {
                write!(f, "{}: cannot be read: {}", path.display(), reason(error))
            }
            Self::Line { path, line, fault } => write!(f, "{}:{line}: {fault}", path.display()),
        }
    }
}
impl std::error::Error for BatchFault {}

/// Reads the queries of a file, or of standard input if it is `-`. The words of the command line apply to
/// each line, and precede it.
pub fn read(path: &Path, args: &QueryArgs) -> Result<Vec<Wanted>, BatchFault> {
    let text = match path == Path::new(STDIN) {
        true => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        }
        false => std::fs::read_to_string(path),
    };
    let text = text.map_err(|error| BatchFault::Unreadable(path.to_owned(), error))?;
    queries(&text, args).map_err(|(line, fault)| BatchFault::Line { path: path.to_owned(), line, fault })
}

fn queries(text: &str, args: &QueryArgs) -> Result<Vec<Wanted>, (usize, WordFault)> {
    let mut all = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let words = args.words.iter().cloned().chain(line.split_whitespace().map(str::to_owned));
        let line = QueryArgs { words: words.collect(), ..args.clone() };
        all.extend(words::read(&line).map_err(|fault| (at + 1, fault))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_read_behind_the_words_of_the_command_line() {
        let args = QueryArgs { words: vec!["@192.0.2.1".into(), "+tcp".into()], ..QueryArgs::default() };
        let all = queries("# comment\n\na. MX +notcp\n  b.\n; comment\n", &args).expect("good");
        let asked: Vec<_> = all
            .iter()
            .map(|w| (w.query.name.to_string(), w.query.qtype, w.tcp, w.server.ip().to_string()))
            .collect();
        let ip = || "192.0.2.1".to_owned();
        assert_eq!(
            asked,
            [("a.".into(), wire::Type::MX, false, ip()), ("b.".into(), wire::Type::A, true, ip())]
        );
    }

    #[test]
    fn a_fault_names_its_line() {
        let fault = queries("a.\n\nb. +shrot\n", &QueryArgs::default()).expect_err("an unknown option");
        assert_eq!(fault, (3, WordFault::Option("shrot".into(), Some("short"))));
    }
}
