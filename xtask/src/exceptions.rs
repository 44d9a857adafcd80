//! The committed table of exceptions, `xtask/exceptions.toml`: code that is longer or less careful than the
//! rules permit. Each entry is exact, so that it can only shrink. The rules are in `checks`.

use serde::Deserialize;

/// Path of the table, from the repository root.
pub(crate) const PATH: &str = "xtask/exceptions.toml";

/// The contents of the table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Exceptions {
    /// Files longer than the limit.
    #[serde(default)]
    pub(crate) long_file: Vec<LongFile>,
    /// Functions longer than the limit.
    #[serde(default)]
    pub(crate) long_function: Vec<LongFunction>,
    /// Calls that can panic, and why they do not.
    #[serde(default)]
    pub(crate) panic: Vec<MayPanic>,
}

/// A file longer than the limit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LongFile {
    /// Path from the repository root.
    pub(crate) path: String,
    /// Exact number of lines outside tests.
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
    /// Exact number of lines from signature to closing brace.
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
    /// Exact number of such calls in the function.
    pub(crate) calls: usize,
    /// Why none of them can panic, for any input.
    pub(crate) reason: String,
}

impl Exceptions {
    /// Parses the table; the error names the line.
    pub(crate) fn parse(text: &str) -> Result<Exceptions, String> {
        toml::from_str(text).map_err(|e| format!("{PATH}: {e}"))
    }
}

/// Returns the first line of the table, counted from 1, that contains `word`; 1 if none does.
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
