//! The committed table of exceptions, `xtask/exceptions.toml`: what is longer or less careful than the rules
//! say, each entry exact so that it can only shrink. The rules themselves live in `checks`.

use serde::Deserialize;

/// Where the table lies, from the repository root.
pub(crate) const PATH: &str = "xtask/exceptions.toml";

/// The table as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Exceptions {
    /// Files longer than the limit.
    #[serde(default)]
    pub(crate) long_file: Vec<LongFile>,
    /// Functions longer than the limit.
    #[serde(default)]
    pub(crate) long_function: Vec<LongFunction>,
    /// Calls that can panic and why they do not.
    #[serde(default)]
    pub(crate) panic: Vec<MayPanic>,
}

/// A file longer than the limit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LongFile {
    /// Path from the repository root.
    pub(crate) path: String,
    /// Lines outside tests, exactly as they are.
    pub(crate) lines: usize,
}

/// A function longer than the limit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LongFunction {
    /// Path from the repository root.
    pub(crate) path: String,
    /// `name`, or `Type::name` for a method.
    pub(crate) name: String,
    /// Lines from signature to closing brace, exactly as they are.
    pub(crate) lines: usize,
}

/// Calls in one function that would panic if their reason were wrong.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MayPanic {
    /// Path from the repository root.
    pub(crate) path: String,
    /// `name`, or `Type::name` for a method.
    pub(crate) function: String,
    /// How many such calls the function has.
    pub(crate) calls: usize,
    /// Why none of them can panic, whatever the outside sends.
    pub(crate) reason: String,
}

impl Exceptions {
    /// Reads the table; an error is the parser's text, which names the line.
    pub(crate) fn parse(text: &str) -> Result<Exceptions, String> {
        toml::from_str(text).map_err(|e| format!("{PATH}: {e}"))
    }
}

/// Line of the table, counted from 1, that holds all `words`; 1 when none does.
pub(crate) fn line_of(text: &str, word: &str) -> usize {
    text.lines().position(|l| l.contains(word)).map_or(1, |i| i + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads_and_unknown_keys_do_not() {
        let table = Exceptions::parse("[[long-file]]\npath = \"a.rs\"\nlines = 901\n").expect("reads");
        assert_eq!((table.long_file[0].path.as_str(), table.long_file[0].lines), ("a.rs", 901));
        assert!(Exceptions::parse("[[panic]]\npath = \"a.rs\"\nfunction = \"f\"\ncalls = 1\n").is_err());
        assert!(Exceptions::parse("[[long-files]]\n").is_err());
    }
}
