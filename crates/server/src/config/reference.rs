//! The reference page and the list of defaults, both printed from the declarations in `schema`. A test
//! compares docs/CONFIGURATION.md with what this prints.

use std::fmt::Write as _;

use super::raw::{KeyDoc, SectionDoc};
use super::schema;

/// Words at the top of the reference page.
const OPENING: &str = "\
# Configuration reference

<!-- Printed by `nomen check --print-reference`; edit crates/server/src/config/schema.rs instead. -->

One TOML file, named with `nomen serve --config FILE`. Without it nomen serves a built-in example.

- The presence of a section turns its feature on. Unknown keys are errors.
- Relative paths start from the folder of the file they are written in.
- Addresses are written `ip@port`: `\"192.0.2.1@53\"`, `\"[2001:db8::1]@53\"`.
- Durations are written with units: `\"500ms\"`, `\"30s\"`, `\"5m\"`, `\"1h30m\"`, `\"1d\"`.
- Sizes are written in bytes or with units: `4096`, `\"64KiB\"`, `\"512MiB\"`, `\"2GiB\"`.
- `include = [\"conf.d/*.toml\"]` at the top of a file reads more files; `*` and `?` may stand in the file
  name. Each single section (`[server]`, `[control]`, `[metrics]`, `[log]`) may stand in one file only.

`nomen check FILE` checks a configuration and every zone it names; `nomen check --defaults` prints every default.
SIGHUP or `nomen ctl reload` reads the file again. What needs a restart to change: `[server]`, `[[listen]]`,
`[control]`, `[metrics]` and `target` and `format` of `[log]`; nomen says so when it finds one of them changed.
";

/// The reference page, in Markdown.
pub fn markdown() -> String {
    let mut out = String::from(OPENING);
    for section in schema::all() {
        let _ = write!(out, "\n## `{}`\n\n{}\n", section.header, paragraph(section.doc));
        for key in &section.keys {
            let default = match (&key.default, key.required) {
                (_, true) => "must be given".to_owned(),
                (Some(default), _) => format!("default `{default}`"),
                (None, _) => "unset by default".to_owned(),
            };
            let _ = write!(out, "\n### `{}`\n\n{}; {default}. ", key.name, capital(&key.kind));
            let _ = write!(out, "Example: `{} = {}`\n\n{}\n", key.name, key.example, paragraph(key.doc));
        }
    }
    out
}

/// Every default as TOML that can be read back. Keys without a default, and sections that are off, are comments.
pub fn defaults() -> String {
    let mut out =
        String::from("# Every key with its default. Keys and sections that are off are comments.\n");
    for section in schema::all() {
        let off = !matches!(section.header, "[server]" | "[[listen]]" | "[control]" | "[log]");
        let _ = write!(out, "\n{}{}\n", if off { "# " } else { "" }, section.header);
        for key in &section.keys {
            let _ = writeln!(out, "{}", default_line(key, off));
        }
    }
    out
}

fn default_line(key: &KeyDoc, section_is_off: bool) -> String {
    let mark = if section_is_off || key.default.is_none() { "# " } else { "" };
    match &key.default {
        Some(default) => format!("{mark}{} = {default}", key.name),
        None => format!("{mark}{} = {}", key.name, key.example),
    }
}

/// A TOML text that uses every key of one section, for the test that each documented key is accepted.
pub fn example_of(section: &SectionDoc) -> String {
    let header = section.header.replace(".X", ".x");
    let mut out = format!("{header}\n");
    for key in &section.keys {
        let _ = writeln!(out, "{} = {}", key.name, key.example);
    }
    out
}

/// The lines of a doc comment without their leading space.
fn paragraph(doc: &str) -> String {
    let lines: Vec<&str> = doc.lines().map(str::trim).collect();
    lines.join("\n").trim_end().to_owned()
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_text;
    use std::path::Path;

    /// Set to rewrite the page instead of comparing.
    const UPDATE: &str = "NOMEN_UPDATE_REFERENCE";

    #[test]
    fn page_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIGURATION.md");
        let wanted = markdown();
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&path, &wanted).expect("the page can be written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == wanted, "docs/CONFIGURATION.md is out of date: run the tests with {UPDATE}=1");
    }

    #[test]
    fn defaults_read_back() {
        let loaded = load_text("defaults", defaults(), Path::new("/")).expect("defaults are accepted");
        let empty = load_text("empty", String::new(), Path::new("/")).expect("nothing is accepted");
        assert_eq!(loaded.config, empty.config);
    }

    /// What is commented out in the defaults must be accepted as well once the comment signs are gone.
    #[test]
    fn each_documented_key_is_accepted() {
        let text: String = schema::all().iter().map(example_of).collect();
        let text = text.replace("template = \"nomen\"", "template = \"x\"");
        if let Err(rejected) = load_text("example", text, Path::new("/")) {
            panic!("{rejected}");
        }
    }

    /// Keys exist only through their declaration, so an accepted key is a documented one; a key that is not
    /// declared is refused in every section.
    #[test]
    fn undocumented_keys_are_refused() {
        for section in schema::all() {
            let text = format!("{}undocumented = 1\n", example_of(&section));
            let rejected = load_text("example", text, Path::new("/")).expect_err("must be refused");
            assert!(rejected.to_string().contains("unknown key `undocumented`"), "{rejected}");
        }
    }

    #[test]
    fn every_key_is_explained() {
        for section in schema::all() {
            assert!(section.doc.len() > 10, "{}", section.header);
            for key in section.keys {
                assert!(key.doc.trim().ends_with('.'), "{} {}", section.header, key.name);
            }
        }
    }
}
