//! `nomen migrate`: translates the configuration of another server, and reports the outcome for each of its
//! statements.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use migrate::{
    Account, Converted, Coverage, ListFile, OsFiles, PeerProgram, SourceSpan, SourceText, Unreadable,
};
use serde_json::json;

use crate::args::{MigrateArgs, MigrateFrom};
use crate::print_out;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE};
use config::read_text;
use config::report::{ConfigPlace, ConfigTexts, Diagnostic};
use wording::reason;

/// Runs the verb; returns the exit code.
pub fn run(args: &MigrateArgs) -> u8 {
    let program = args.from.map(|from| match from {
        MigrateFrom::Adguard => PeerProgram::AdGuard,
        MigrateFrom::Bind => PeerProgram::Bind,
        MigrateFrom::Dnsdist => PeerProgram::Dnsdist,
        MigrateFrom::Nsd => PeerProgram::Nsd,
        MigrateFrom::Knot => PeerProgram::Knot,
        MigrateFrom::Pdns => PeerProgram::PowerDns,
        MigrateFrom::Pihole => PeerProgram::PiHole,
        MigrateFrom::Unbound => PeerProgram::Unbound,
    });
    // Paths in the output must be valid wherever it is stored.
    let file = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    let folder = args.lists.as_deref().unwrap_or(Path::new(LISTS));
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let converted = match migrate::convert(&file, program, &OsFiles, &folder) {
        Err(unreadable) => return refuse(&unreadable),
        Ok(converted) => converted,
    };
    if args.lists.is_some()
        && let Err(fault) = write_lists(&converted.lists, &folder)
    {
        eprintln!("error: {fault}");
        return EXIT_OUTSIDE;
    }
    report(&converted, args)
}

/// Folder of block lists in the printed configuration, unless another is named.
const LISTS: &str = "/etc/nomen/lists";

/// Writes the block lists. A file that is there already must have the same content.
///
/// # Errors
/// Why a file cannot be written.
fn write_lists(lists: &[ListFile], folder: &Path) -> Result<(), String> {
    let failed =
        |path: &Path, fault: &io::Error| format!("cannot write {}: {}", path.display(), reason(fault));
    if !lists.is_empty() {
        fs::create_dir_all(folder).map_err(|fault| failed(folder, &fault))?;
    }
    for ListFile { path, text } in lists {
        match File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => {}
            Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read(path).ok().as_deref() != Some(text.as_bytes()) {
                    return Err(format!(
                        "{} exists with another content, and is not replaced",
                        path.display()
                    ));
                }
            }
            Err(fault) => return Err(failed(path, &fault)),
        }
    }
    Ok(())
}

/// Prints why the configuration cannot be read.
fn refuse(unreadable: &Unreadable) -> u8 {
    let fault =
        Diagnostic::at(unreadable.fault.span.as_ref().map(place).as_ref(), unreadable.fault.kind.to_string());
    eprint!("{}", texts(&unreadable.texts).render(&[fault]));
    if unreadable.fault.kind.is_outside() { EXIT_OUTSIDE } else { EXIT_FAULTS }
}

/// Prints the configuration and the report.
fn report(converted: &Converted, args: &MigrateArgs) -> u8 {
    let texts = texts(&converted.texts);
    let base = PathBuf::from("/");
    let rejected = read_text("nomen.toml", converted.toml.clone(), &base).err();
    if args.json {
        let faults =
            rejected.as_ref().map(|rejected| rejected.faults.iter().map(|fault| fault.message.clone()));
        let value = json!({
            "program": converted.program.name(),
            "configuration": converted.toml,
            "statements": converted.accounts.iter().map(|account| json_of(account, &texts)).collect::<Vec<_>>(),
            "lists": converted.lists.iter().map(json_of_list).collect::<serde_json::Map<_, _>>(),
            "faults": faults.map(Iterator::collect::<Vec<_>>).unwrap_or_default(),
        });
        say!("{value:#}");
    } else {
        print_out(&converted.toml);
        eprint!("{}", text_of(converted, &texts, args.all));
        for list in converted.lists.iter().filter(|_| args.lists.is_none()) {
            let path = list.path.display();
            eprintln!("missing: {path}: this list is not written; `--lists FOLDER` writes it");
        }
        if let Some(rejected) = &rejected {
            eprintln!("\nThe printed configuration has faults; correct these lines:\n\n{rejected}");
        }
    }
    let lacks_lists = !args.json && args.lists.is_none() && !converted.lists.is_empty();
    if converted.is_less() || rejected.is_some() || lacks_lists { EXIT_FAULTS } else { EXIT_OK }
}

fn place(span: &SourceSpan) -> ConfigPlace {
    ConfigPlace { source: span.text, span: span.range.clone() }
}

fn texts(all: &[SourceText]) -> ConfigTexts {
    let mut texts = ConfigTexts::default();
    for text in all {
        texts.add(shown(&text.path), text.text.clone());
    }
    texts
}

/// Returns a path as the operator would write it: relative to the working folder if it is below that.
fn shown(path: &Path) -> PathBuf {
    // Every path is below the root, and one without its first `/` would look relative to another folder.
    let here = std::env::current_dir().ok().filter(|here| here.parent().is_some());
    let below = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    below.unwrap_or_else(|| path.to_owned())
}

/// Returns the word for an outcome that begins its report.
fn word(outcome: Coverage) -> &'static str {
    match outcome {
        Coverage::Missing => "missing",
        Coverage::Narrower => "narrower",
        Coverage::Differs => "differs",
        Coverage::Unneeded => "unneeded",
        Coverage::Translated => "translated",
    }
}

/// Returns narrower, missing and different statements with their lines; with `all` the rest, too, on one line
/// each. Counts come last.
fn text_of(converted: &Converted, texts: &ConfigTexts, all: bool) -> String {
    let mut out = String::new();
    let is = |outcome: Coverage| move |account: &&Account| account.outcome == outcome;
    for outcome in [Coverage::Narrower, Coverage::Missing, Coverage::Differs] {
        for account in converted.accounts.iter().filter(is(outcome)) {
            let named = match account.statement.as_str() {
                "" => account.words.clone(),
                statement => format!("`{statement}`: {}", account.words),
            };
            let found = Diagnostic::at(account.span.as_ref().map(place).as_ref(), named);
            out += &texts.render_as(word(outcome), &found);
            out.push('\n');
        }
    }
    for outcome in [Coverage::Unneeded, Coverage::Translated] {
        for account in converted.accounts.iter().filter(is(outcome)).filter(|_| all) {
            let at = account.span.as_ref().map(|span| texts.address(&place(span))).unwrap_or_default();
            out += &format!("{}: {at}: `{}`: {}\n", word(outcome), account.statement, account.words);
        }
    }
    let count = |outcome| converted.accounts.iter().filter(is(outcome)).count();
    let [translated, unneeded, differs, narrower, missing] =
        [Coverage::Translated, Coverage::Unneeded, Coverage::Differs, Coverage::Narrower, Coverage::Missing]
            .map(count);
    let program = converted.program.name();
    let hint = if all || unneeded + translated == 0 { "" } else { "; --all shows those as well" };
    out += &format!(
        "{program}: {narrower} narrower here, {missing} missing, {differs} mean something else, {unneeded} \
        not needed, {translated} translated{hint}\n"
    );
    out
}

fn json_of_list(list: &ListFile) -> (String, serde_json::Value) {
    (list.path.display().to_string(), list.text.clone().into())
}

fn json_of(account: &Account, texts: &ConfigTexts) -> serde_json::Value {
    let at = account.span.as_ref().map(place);
    let position = at.as_ref().map(|at| texts.line_column(at));
    let file = at.as_ref().and_then(|at| texts.get(at.source)).map(|text| text.path.display().to_string());
    json!({
        "outcome": word(account.outcome),
        "statement": account.statement,
        "words": account.words,
        "file": file,
        "line": position.map(|(line, _)| line),
        "column": position.map(|(_, column)| column),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use migrate::{BOUNDS, Measure};
    use recursion::SpecialName;

    use config::reference::sections;

    /// Every name that can be turned off exists in nomen.
    #[test]
    fn special_names_are_the_same() {
        for special in SpecialName::all() {
            assert!(migrate::is_special(special.domain.trim_end_matches('.')), "{}", special.domain);
        }
        for other in ["example", "15.172.in-addr.arpa", "128.100.in-addr.arpa", "in-addr.arpa"] {
            assert!(!migrate::is_special(other), "{other}");
        }
    }

    /// Written values are within the bounds of their keys.
    #[test]
    fn bounds_are_those_of_the_keys() {
        let all = sections();
        for (header, name, measure, least, most) in BOUNDS {
            let section = all.iter().find(|section| section.header == *header).expect(header);
            let key = section.keys.iter().find(|key| key.name == *name).expect(name);
            let shown = |value: u64| match measure {
                Measure::Count => value.to_string(),
                Measure::Millis => {
                    config::table::value::format_duration(std::time::Duration::from_millis(value))
                }
                Measure::Bytes => config::table::value::format_size(value),
            };
            let bounds = format!("({} to {})", shown(*least), shown(*most));
            assert!(key.kind.ends_with(&bounds), "{header} {name}: {} is not {bounds}", key.kind);
        }
    }

    /// Defaults of times are those of the keys.
    #[test]
    fn times_of_policies_are_those_of_the_keys() {
        let all = sections();
        let policy = all.iter().find(|section| section.header == "[dnssec-policy.X]").expect("the section");
        for (name, seconds) in migrate::POLICY_TIMES {
            let key = policy.keys.iter().find(|key| key.name == *name).expect(name);
            let usual = key.default.as_deref().expect(name).trim_matches('"');
            let wanted = std::time::Duration::from_secs(*seconds);
            assert_eq!(config::table::value::parse_duration(usual), Ok(wanted), "{name}");
        }
    }

    /// One file in memory.
    struct OneFile(String);

    impl migrate::Files for OneFile {
        fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
            match path == Path::new("/conf") {
                true => Ok(self.0.clone().into_bytes()),
                false => Err(std::io::ErrorKind::NotFound.into()),
            }
        }
        fn names(&self, _: &Path) -> std::io::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    /// Limits on replies, secrets of cookies and rules of a balancer are good ones in nomen's configuration.
    #[test]
    fn limits_and_rules_are_accepted() {
        const SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
        let cases = [
            (
                migrate::PeerProgram::Bind,
                format!(
                    "options {{ recursion no; cookie-secret \"{SECRET}\"; rate-limit {{ responses-per-second 5; slip 0; \
                     exempt-clients {{ 192.0.2.0/24; ::1; }}; }}; }};"
                ),
            ),
            (migrate::PeerProgram::Nsd, format!("server:\n  ip-address: 192.0.2.1\n  cookie-secret: {SECRET}\n")),
            (
                migrate::PeerProgram::Dnsdist,
                "newServer({address=\"192.0.2.1\"})\nsetACL(\"10.0.0.0/8\")\naddAction(\"x.example\", DropAction())\n\
                 addAction(\"10.9.0.0/16\", DropAction())\naddAction(MaxQPSIPRule(2000000, 24, 48), TCAction())\n"
                    .to_owned(),
            ),
        ];
        for (program, text) in cases {
            let made =
                migrate::convert(Path::new("/conf"), Some(program), &OneFile(text), Path::new("/lists"));
            let toml = made.expect("it is read").toml;
            assert!(toml.contains("[rate-limits]"), "{toml}");
            let read = config::read_text("made", toml.clone(), Path::new("/"));
            assert!(read.is_ok(), "{toml}{}", read.err().map_or(String::new(), |e| e.to_string()));
        }
    }

    proptest::proptest! {
        /// A policy of any times is a good one in nomen's configuration.
        #[test]
        fn policies_are_accepted(
            times in proptest::collection::vec((0..9usize, 0..4_000_000u64), 0..9),
            lifetimes in [0..40_000_000u64, 0..40_000_000u64],
            split in proptest::bool::ANY,
        ) {
            const NAMES: [&str; 9] = [
                "signatures-validity", "signatures-refresh", "signatures-jitter", "dnskey-ttl",
                "publish-safety", "retire-safety", "zone-propagation-delay", "parent-ds-ttl", "purge-keys",
            ];
            let [ksk, zsk] = lifetimes;
            let keys = match split {
                true => format!("ksk lifetime {ksk} algorithm 13; zsk lifetime {zsk} algorithm 13;"),
                false => format!("csk lifetime {ksk} algorithm 8 4096;"),
            };
            let times: String =
                times.iter().map(|(at, seconds)| format!("{} {seconds}; ", NAMES[*at])).collect();
            let text = format!(
                "options {{ recursion no; }}; dnssec-policy p {{ keys {{ {keys} }}; {times} }};\n\
                 zone a.example {{ type primary; file \"a\"; dnssec-policy p; }};"
            );
            let program = Some(migrate::PeerProgram::Bind);
            let made = migrate::convert(Path::new("/conf"), program, &OneFile(text), Path::new("/lists"));
            let toml = made.expect("it is read").toml;
            let read = config::read_text("made", toml.clone(), Path::new("/"));
            proptest::prop_assert!(read.is_ok(), "{toml}{}", read.err().map_or(String::new(), |e| e.to_string()));
        }
    }
}
