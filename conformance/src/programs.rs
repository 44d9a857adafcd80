//! Chooses the programs to compare, from the command line and PATH, and finds their versions.

use crate::Arguments;
use crate::servers::{AUTHORITATIVE, FORWARDING, Kind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folders of servers that are not in PATH of ordinary users.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// Returns the programs to start, by kind.
pub(crate) fn choose(arguments: &Arguments) -> Result<BTreeMap<Kind, PathBuf>, String> {
    let mut programs = BTreeMap::new();
    let kinds = AUTHORITATIVE.into_iter().chain(
        FORWARDING
            .into_iter()
            .filter(|_| arguments.resolvers || arguments.internet || arguments.attacks || arguments.policy),
    );
    for kind in kinds {
        if kind == Kind::Nomen && arguments.peers_only {
            continue;
        }
        let program = kind.default_program();
        programs.insert(kind, find(&program).unwrap_or(program));
    }
    for text in &arguments.server {
        let (kind, path) = text.split_once('=').ok_or_else(|| format!("--server {text}: no ="))?;
        let kind = Kind::from_label(kind).ok_or_else(|| format!("--server {text}: which server is that?"))?;
        if path == "none" {
            programs.remove(&kind);
        } else {
            let path = Path::new(path);
            let path = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
            programs.insert(kind, path);
        }
    }
    if let Some(path) = programs.get_mut(&Kind::Nomen) {
        let debug = PathBuf::from("target/debug/nomen");
        if !path.exists() && debug.exists() {
            *path = debug;
        }
        *path = path
            .canonicalize()
            .map_err(|e| format!("{}: {e} (build it first, or --peers-only)", path.display()))?;
    }
    Ok(programs)
}

/// Finds a program in PATH, as a shell does; a path with a folder is taken as it is.
fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_path_buf());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM.map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns all programs with their versions, on one line.
pub(crate) fn versions(programs: &BTreeMap<Kind, PathBuf>) -> String {
    let one = |(kind, program): (&Kind, &PathBuf)| {
        let version = version(*kind, program).unwrap_or_else(|| "of unknown version".to_owned());
        format!("{} {version}", kind.label())
    };
    programs.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns the version that a program prints.
fn version(kind: Kind, program: &Path) -> Option<String> {
    let output = Command::new(program).arg(kind.version_flag()).stdin(Stdio::null()).output().ok()?;
    version_in(&String::from_utf8_lossy(&[output.stdout, output.stderr].concat()))
}

/// Adapts a configuration to the program's version. BIND since 9.20 has no lock file and rejects the setting
/// that turns it off in older versions.
pub(crate) fn adapted(kind: Kind, program: &Path, text: &str) -> String {
    const LOCK_FILE: &str = "lock-file none;";
    if kind == Kind::Bind && !is_older(kind, program, (9, 20)) {
        return text.replace(LOCK_FILE, "");
    }
    text.to_owned()
}

/// Whether the version of a program is known, and older than this one.
pub(crate) fn is_older(kind: Kind, program: &Path, (major, minor): (u32, u32)) -> bool {
    version(kind, program).is_some_and(|version| {
        let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
        (numbers.next(), numbers.next()) < (Some(major), Some(minor))
    })
}

/// Returns the arguments that this version of a program needs. PowerDNS Recursor since 5.2 accepts old-style
/// settings only with a flag, which older versions reject.
pub(crate) fn further_arguments(kind: Kind, program: &Path) -> Vec<String> {
    const OLD_SETTINGS: &str = "--enable-old-settings";
    if kind != Kind::Recursor {
        return Vec::new();
    }
    let help = Command::new(program).arg("--help").stdin(Stdio::null()).output();
    let knows = help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(OLD_SETTINGS));
    knows.then(|| OLD_SETTINGS.to_owned()).into_iter().collect()
}

/// Returns the first word that begins with a digit and contains a dot but no colon, up to a dash.
fn version_in(text: &str) -> Option<String> {
    let word = text.split(|c: char| c.is_whitespace() || c == ',').find(|word| {
        word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.') && !word.contains(':')
    })?;
    word.split('-').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_version_is_found_in_what_a_server_prints() {
        let cases = [
            ("BIND 9.20.30-1-Debian (Stable Release) <id:>", Some("9.20.30")),
            ("NSD version 4.15.4\nWritten by NLnet Labs.", Some("4.15.4")),
            ("knotd, Knot DNS 3.5.8\n", Some("3.5.8")),
            ("knotd (Knot DNS), version 3.2.6\n", Some("3.2.6")),
            ("Nov 23 23:00:59 PowerDNS Recursor 5.4.9 (C) PowerDNS.COM BV", Some("5.4.9")),
            ("dnsdist 2.1.3 (Lua 5.1.4 [LuaJIT 2.1.1761786044])", Some("2.1.3")),
            ("Version 1.26.2\n\nConfigure line:", Some("1.26.2")),
            ("nothing of the kind", None),
        ];
        for (text, version) in cases {
            assert_eq!(version_in(text).as_deref(), version, "{text}");
        }
    }

    /// Creates a program in `dir` that prints `text`.
    fn printing(dir: &Path, text: &str) -> PathBuf {
        let program = dir.join(text.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
        fs::write(&program, format!("#!/bin/sh\necho '{text}'\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn only_a_bind_that_has_lock_files_is_kept_from_making_one() {
        let dir = tempfile::tempdir().unwrap();
        let text = "pid-file none; lock-file none; recursion no;";
        for (version, is_kept) in [
            ("BIND 9.18.49-1~deb12u3-Debian", true),
            ("BIND 9.20.30-1-Debian", false),
            ("BIND 10.0.1", false),
        ] {
            let program = printing(dir.path(), version);
            let adapted = adapted(Kind::Bind, &program, text);
            assert_eq!(adapted.contains("lock-file"), is_kept, "{version}");
            assert!(adapted.contains("pid-file none;") && adapted.contains("recursion no;"), "{adapted}");
        }
    }

    #[test]
    fn a_recursor_that_has_the_flag_for_old_settings_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        for (help, expected) in [("  --enable-old-settings=no", 1), ("  --daemon=no", 0)] {
            let program = printing(dir.path(), help);
            assert_eq!(further_arguments(Kind::Recursor, &program).len(), expected, "{help}");
            assert!(further_arguments(Kind::Bind, &program).is_empty());
        }
    }

    #[test]
    fn a_name_is_looked_up_in_path_and_a_path_is_not() {
        assert!(find(Path::new("sh")).is_some_and(|path| path.is_absolute()));
        assert_eq!(find(Path::new("no-such-program")), None);
        assert_eq!(find(Path::new("./sh")), None);
    }
}
