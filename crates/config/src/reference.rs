//! The reference page and the list of defaults, both printed from the declarations of the keys. A test
//! compares docs/CONFIGURATION.md with this output.

use std::fmt::Write as _;

use super::Configuration;
use super::table::{Effect, KeyDoc, SectionDoc};

/// The beginning of the reference page.
const OPENING: &str = "\
# Configuration reference

<!-- Printed by `nomen check --print-reference`; edit the keys in crates/config/src instead. -->

One TOML file, named with `nomen serve --config FILE`. Without it nomen serves a built-in example.

- The presence of a section turns its feature on. Unknown keys are errors.
- Relative paths start from the folder of the file they are written in.
- Addresses are written `ip@port`: `\"192.0.2.1@53\"`, `\"[2001:db8::1]@53\"`.
- Durations are written with units: `\"500ms\"`, `\"30s\"`, `\"5m\"`, `\"1h30m\"`, `\"1d\"`.
- Sizes are written in bytes or with units: `4096`, `\"64KiB\"`, `\"512MiB\"`, `\"2GiB\"`.
- `include = [\"conf.d/*.toml\"]` at the top of a file reads more files; `*` and `?` are wildcards in the file
  name. Each single section (`[server]`, `[rate-limits]`, `[transfers]`, `[updates]`, `[resolver]`, `[policy]`, `[control]`, \
  `[metrics]`, `[log]`, `[dnstap]`) may be in one file
  only; blocks such as `[[zone]]` and `[[resolver.forward]]` may be in any.

`nomen check FILE` checks a configuration and every zone it names; `nomen check --defaults` prints every \
default.

A reload, by SIGHUP or `nomen ctl reload`, reads the file again. Each key says whether a change *takes \
effect at a reload* or
*takes effect at the next start*. A change of the latter kind is logged at every reload until the server is \
started
again or the value restored, and `nomen ctl status` lists it. The same holds for a `[[listen]]` block, \
`[resolver]`,
`[metrics]` or `[dnstap]` that is added or removed.

A faulty configuration changes nothing. A zone that is bad, or whose file cannot be read, stays in service in \
its last good version; a zone that has none answers SERVFAIL. `nomen ctl reload` prints all faults and
exits with 1, or with 0 if there are none.
";

/// Returns every section in the order of the page.
pub fn sections() -> Vec<SectionDoc> {
    Configuration::default().slots().map(|slot| slot.describe()).into()
}

/// Returns the reference page, in Markdown.
pub fn markdown() -> String {
    let mut out = String::from(OPENING);
    for section in sections() {
        let _ = write!(out, "\n## `{}`\n\n{}\n", section.header, paragraph(section.doc));
        for key in &section.keys {
            let default = default_words(key);
            let effect = match key.effect {
                Effect::Live => "takes effect at a reload",
                Effect::Restart => "takes effect at the next start",
            };
            let _ = write!(out, "\n### `{}`\n\n{}; {default}; {effect}. ", key.name, capital(&key.kind));
            let _ = write!(out, "Example: `{} = {}`\n\n{}\n", key.name, key.example, paragraph(key.doc));
        }
    }
    out
}

fn default_words(key: &KeyDoc) -> String {
    match (&key.default, key.required) {
        (_, true) => "must be given".to_owned(),
        (Some(default), _) => format!("default `{default}`"),
        (None, _) => "unset by default".to_owned(),
    }
}

/// Returns every default as valid TOML. Keys without a default, and sections that are off, are comments.
pub fn defaults() -> String {
    let mut out =
        String::from("# Every key with its default. Keys and sections that are off are comments.\n");
    for section in sections() {
        let _ = write!(out, "\n{}{}\n", if section.on { "" } else { "# " }, section.header);
        for key in &section.keys {
            let _ = writeln!(out, "{}", default_line(key, section.on));
        }
    }
    out
}

fn default_line(key: &KeyDoc, section_is_on: bool) -> String {
    match &key.default {
        Some(default) if section_is_on => format!("{} = {default}", key.name),
        Some(default) => format!("# {} = {default}", key.name),
        None => format!("# {} = {}", key.name, key.example),
    }
}

/// Returns the reference as a manual page of section 5, nomen.toml(5).
pub fn man_page() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!(
        ".TH nomen.toml 5 \"\" \"nomen {version}\"\n.SH NAME\nnomen.toml \\- configuration of the DNS \
        server nomen\n\
         .SH DESCRIPTION\n"
    );
    let opening = OPENING.lines().filter(|line| !line.starts_with('#') && !line.starts_with("<!--"));
    opening.for_each(|line| match line.strip_prefix("- ") {
        Some(item) => out += &format!(".IP \\(bu 2\n{}\n", roff(item)),
        None if line.is_empty() => out += ".PP\n",
        None => out += &format!("{}\n", roff(line.trim())),
    });
    for section in sections() {
        let _ = write!(out, ".SH {}\n{}\n", roff(section.header), roff(&paragraph(section.doc)));
        for key in &section.keys {
            let default = default_words(key);
            let effect = match key.effect {
                Effect::Live => "a change takes effect at a reload",
                Effect::Restart => "a change takes effect at the next start",
            };
            let about = format!("{}; {default}; {effect}.", capital(&key.kind));
            let _ = write!(out, ".TP\n{}\n", roff(&format!("`{} =` {}", key.name, key.example)));
            let _ = write!(out, "{}\n.br\n{}\n", roff(&paragraph(key.doc)), roff(&about));
        }
    }
    out + ".SH SEE ALSO\n.BR nomen (1),\n.BR nomen\\-check (1)\n"
}

/// Escapes text for manual pages; text between backticks becomes bold.
fn roff(text: &str) -> String {
    let mut bold = false;
    let lines = text.lines().map(|line| {
        let mut out = String::new();
        for c in line.chars() {
            match c {
                '`' => {
                    bold = !bold;
                    out += if bold { "\\fB" } else { "\\fR" };
                }
                '\\' => out += "\\e",
                '-' => out += "\\-",
                c => out.push(c),
            }
        }
        // At the start of a line, these would begin a request.
        if out.starts_with(['.', '\'']) { format!("\\&{out}") } else { out }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the lines of a doc comment without their leading space.
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
    use std::path::Path;

    use super::*;
    use crate::{AcceptedConfig, read_text};

    /// Set to rewrite the page instead of comparing.
    const UPDATE: &str = "NOMEN_UPDATE_REFERENCE";

    /// Keys that exclude others: a zone has files and possibly updates, or primaries, or is produced here;
    /// the file of a signed zone is not written; dnstap frames go into a file or to a socket.
    const FILES: [&str; 11] = [
        "file",
        "directory",
        "pattern",
        "max-removed",
        "allow-update",
        "update-policy",
        "api",
        "ixfr-from-differences",
        "write-file-every",
        "catalog-produce",
        "delegation-updates",
    ];
    const PRIMARIES: [&str; 16] = [
        "socket",
        "primaries",
        "catalog-produce",
        "allow-notify",
        "forward-updates",
        "ixfr",
        "zonemd",
        "min-refresh",
        "max-refresh",
        "min-retry",
        "max-retry",
        "min-expire",
        "max-expire",
        "dnssec-policy",
        "parental-servers",
        "ds-push",
    ];

    /// Returns a section with the examples of all keys except these.
    fn example_without(section: &SectionDoc, without: &[&str]) -> String {
        let keys = section.keys.iter().filter(|key| !without.contains(&key.name));
        let keys = keys.map(|key| format!("{} = {}\n", key.name, key.example));
        let header = section.header.replace(".X", ".customers");
        keys.fold(format!("{header}\n"), |text, key| text + &key)
    }

    fn accepted(text: &str) -> AcceptedConfig {
        read_text("example", text.to_owned(), Path::new("/")).unwrap_or_else(|rejected| panic!("{rejected}"))
    }

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
        assert_eq!(accepted(&defaults()).config, accepted("").config);
    }

    /// What the defaults comment out must also be accepted without the comment signs.
    #[test]
    fn each_documented_key_is_accepted() {
        // A copy of the root zone comes from a file or from servers, and requires `iterate` and an address
        // family.
        let copies: [&[&str]; 3] = [
            &["local-root", "local-root-file", "local-root-primaries"],
            &["iterate", "iterate-ipv4", "local-root-file"],
            &["iterate", "iterate-ipv4", "local-root-primaries"],
        ];
        // A list that blocks nothing has no answer, and one from a file is not fetched.
        let of_lists: [&[&str]; 3] =
            [&["kind", "file"], &["answer", "file"], &["answer", "url", "refresh", "timeout", "ca-file"]];
        // Only RSA keys have a choice of sizes, and answers that are signed need no chain.
        let beforehand =
            &["ksk-size", "zsk-size", "online", "online-signatures-per-second", "online-cache"][..];
        let online = ["nsec3", "nsec3-opt-out", "nsec3-iterations", "nsec3-salt", "zonemd"];
        let online = [&["ksk-size", "zsk-size"][..], &online].concat();
        let of_policies = [beforehand, &online, beforehand];
        let keys = [&FILES[..], &PRIMARIES[..], &PRIMARIES[..]];
        for (((keys, copy), of_list), of_policy) in
            keys.into_iter().zip(copies).zip(of_lists).zip(of_policies)
        {
            let (all, without) = (sections(), [keys, copy].concat());
            // A zone in a view is no catalog zone.
            let of_zone = [&without[..], &["view"]].concat();
            let without = |header: &str| match header {
                "[[policy.list]]" => of_list,
                // There is no such template.
                "[api]" => &["template"],
                "[database]" => &["template", "url-file"],
                // A token has one hash.
                "[[api.token]]" => &["hash-file"],
                "[dnssec-policy.X]" => of_policy,
                "[[zone]]" => &of_zone[..],
                _ => &without[..],
            };
            let text: String =
                all.iter().map(|section| example_without(section, without(section.header))).collect();
            let zones = "[[zone]]\nname = \"catalog.example.com\"\ncatalog-produce = true\n\
                [[zone]]\nname = \"rpz.example.com\"\nfile = \"rpz.zone\"\n\
                [[zone]]\nname = \"example.com\"\nview = \"inside\"\nfile = \"f\"\n";
            accepted(&format!("{text}{zones}"));
        }
    }

    /// Readers copy examples, and a key's smallest or largest value suits hardly any set-up.
    #[test]
    fn no_example_is_a_bound() {
        for key in sections().into_iter().flat_map(|section| section.keys) {
            let bounds = key.kind.split_once('(').and_then(|(_, bounds)| bounds.split_once(" to "));
            let Some((least, most)) = bounds else { continue };
            let example = key.example.trim_matches('"');
            assert!(![least, most.trim_end_matches(')')].contains(&example), "{} = {example}", key.name);
        }
    }

    /// Keys exist only by their declaration, so every accepted key is documented, and every section refuses
    /// undeclared keys.
    #[test]
    fn undocumented_keys_are_refused() {
        for section in sections() {
            let text = format!("{}undocumented = 1\n", example_without(&section, &PRIMARIES));
            let rejected = read_text("example", text, Path::new("/")).expect_err("must be refused");
            assert!(rejected.to_string().contains("unknown key `undocumented`"), "{rejected}");
        }
    }

    #[test]
    fn the_manual_page_has_every_key() {
        let page = man_page();
        for section in sections() {
            assert!(page.contains(&format!("\n.SH {}\n", roff(section.header))), "{}", section.header);
            for key in section.keys {
                let entry = format!("\n.TP\n\\fB{} =\\fR ", key.name.replace('-', "\\-"));
                assert!(page.contains(&entry), "{} {}", section.header, key.name);
            }
        }
    }

    #[test]
    fn text_of_a_manual_page_is_no_command() {
        assert_eq!(roff(".so x\n'a\\b-c `d`"), "\\&.so x\n\\&'a\\eb\\-c \\fBd\\fR");
    }

    #[test]
    fn every_key_is_explained() {
        for section in sections() {
            assert!(section.doc.len() > 10, "{}", section.header);
            for key in section.keys {
                assert!(key.doc.trim().ends_with('.'), "{} {}", section.header, key.name);
            }
        }
    }
}
