//! The programs of the servers: their paths, their versions, and what their versions require.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Result;
use crate::servers::{Kind, NSD_XDP_PROGRAM};

/// Paths of the programs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// `nomen`.
    pub(crate) nomen: PathBuf,
    /// `nsd`.
    pub(crate) nsd: PathBuf,
    /// `knotd`.
    pub(crate) knotd: PathBuf,
    /// `named`.
    pub(crate) named: PathBuf,
    /// `pdns_server`.
    pub(crate) pdns: PathBuf,
    /// `unbound`.
    pub(crate) unbound: PathBuf,
    /// `pdns_recursor`.
    pub(crate) recursor: PathBuf,
    /// `dnsdist`.
    pub(crate) dnsdist: PathBuf,
    /// `kresd`.
    pub(crate) kresd: PathBuf,
}

impl Programs {
    /// Returns the program of a server.
    pub(crate) fn of(&self, kind: Kind) -> PathBuf {
        match kind {
            Kind::Nomen => self.nomen.clone(),
            Kind::Nsd | Kind::NsdDefaults => self.nsd.clone(),
            Kind::Knot | Kind::KnotDefaults => self.knotd.clone(),
            Kind::Bind | Kind::BindDefaults => self.named.clone(),
            Kind::Pdns | Kind::PdnsAdvised => self.pdns.clone(),
            Kind::Unbound => self.unbound.clone(),
            Kind::Recursor => self.recursor.clone(),
            Kind::Dnsdist | Kind::DnsdistAdvised => self.dnsdist.clone(),
            Kind::Kresd | Kind::KresdAdvised => self.kresd.clone(),
            Kind::Reflector | Kind::Relay => std::env::current_exe().unwrap_or_default(),
        }
    }

    /// Whether this nomen can keep images of zones: its configuration has the key of their folder.
    pub(crate) fn keeps_images(&self) -> bool {
        self.knows("### `state-dir`")
    }

    /// Whether this nomen's configuration reference contains these words.
    pub(crate) fn knows(&self, words: &str) -> bool {
        let mut command = Command::new(&self.nomen);
        let output = command.args(["check", "--print-reference"]).stdin(Stdio::null()).output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(words))
    }

    /// Whether a server supports AF_XDP: of NSD and dnsdist only some versions and builds do.
    pub(crate) fn has_front(&self, kind: Kind) -> bool {
        match kind {
            Kind::Nomen | Kind::Knot | Kind::Kresd | Kind::Reflector => true,
            Kind::Nsd => self.about(kind).is_some_and(|text| text.contains("--enable-xdp")),
            Kind::Dnsdist => self.about(kind).is_some_and(|text| text.contains("AF_XDP")),
            _ => false,
        }
    }

    /// Returns the arguments that this version of a server needs. PowerDNS Recursor since 5.2 accepts
    /// old-style settings only with a flag, which older versions reject.
    pub(crate) fn further_arguments(&self, kind: Kind) -> Vec<String> {
        const OLD_SETTINGS: &str = "--enable-old-settings";
        if kind.program() != Kind::Recursor {
            return Vec::new();
        }
        let help = Command::new(self.of(kind)).arg("--help").stdin(Stdio::null()).output();
        let knows = help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(OLD_SETTINGS));
        knows.then(|| OLD_SETTINGS.to_string()).into_iter().collect()
    }

    /// Adapts the configuration in this folder to a server's version: BIND since 9.20 has no lock file and
    /// rejects the setting that turns it off in older versions; PowerDNS outside its package's folders does
    /// not find its backend, and NSD not its XDP program.
    pub(crate) fn adapt(&self, kind: Kind, folder: &Path) -> Result<()> {
        let kind = kind.program();
        if kind == Kind::Nsd
            && let Some(own) = find(&self.nsd).as_deref().and_then(xdp_program)
        {
            let file = folder.join("nsd.conf");
            let text = fs::read_to_string(&file)?;
            fs::write(&file, text.replace(NSD_XDP_PROGRAM, &own.display().to_string()))?;
        }
        if kind == Kind::Bind && !self.version(kind).is_some_and(|version| has_lock_file(&version)) {
            let file = folder.join("named.conf");
            let text = fs::read_to_string(&file)?;
            fs::write(&file, text.replace(" lock-file none;", ""))?;
        }
        if kind == Kind::Pdns
            && let Some(backends) = find(&self.pdns).as_deref().and_then(backends)
        {
            let mut file = fs::OpenOptions::new().append(true).open(folder.join("pdns.conf"))?;
            writeln!(file, "module-dir={}", backends.display())?;
        }
        Ok(())
    }

    /// Whether the server's program exists.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        find(&self.of(kind)).is_some()
    }

    /// Returns the version that a server reports.
    pub(crate) fn version(&self, kind: Kind) -> Option<String> {
        version_in(&self.about(kind)?)
    }

    /// Returns what a server prints about its version and build.
    fn about(&self, kind: Kind) -> Option<String> {
        let flag = match kind.program() {
            Kind::Nsd => "-v",
            Kind::Bind | Kind::Knot | Kind::Unbound | Kind::Kresd => "-V",
            Kind::Pdns | Kind::Nomen | Kind::Recursor | Kind::Dnsdist => "--version",
            _ => return None,
        };
        let output = Command::new(self.of(kind)).arg(flag).stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }
}

/// Returns the first word that begins with a digit and contains a dot, up to a dash.
fn version_in(text: &str) -> Option<String> {
    let word = text.split(|c: char| c.is_whitespace() || c == ',').find(|word| {
        word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.') && !word.contains(':')
    })?;
    Some(word.split('-').next().unwrap_or(word).to_string())
}

/// Finds a program as a shell would.
pub(crate) fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_path_buf());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether a version of BIND creates a lock file.
fn has_lock_file(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) < (Some(9), Some(20))
}

/// Returns the path of NSD's XDP program relative to an NSD that is outside its package's folders.
fn xdp_program(program: &Path) -> Option<PathBuf> {
    let own = program.parent()?.parent()?.join(NSD_XDP_PROGRAM.trim_start_matches('/'));
    own.is_file().then_some(own)
}

/// Returns the folder of PowerDNS' backends relative to a program that is outside its package's folders.
fn backends(program: &Path) -> Option<PathBuf> {
    let libraries = program.parent()?.parent()?.join("usr/lib");
    let folders = fs::read_dir(libraries).ok()?.filter_map(|entry| Some(entry.ok()?.path().join("pdns")));
    folders.into_iter().find(|folder| folder.join("libbindbackend.so").is_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn versions_are_found_in_what_servers_print() {
        let cases = [
            ("BIND 9.18.49-1~deb12u3-Debian (Extended Support Version) <id:>", "9.18.49"),
            ("NSD version 4.6.1\nWritten by NLnet Labs.", "4.6.1"),
            ("knotd (Knot DNS), version 3.2.6\n", "3.2.6"),
            ("Nov 21 03:49:54 PowerDNS Authoritative Server 4.7.3 (C) 2001-2022", "4.7.3"),
            ("nomen 0.1.0", "0.1.0"),
            ("Version 1.17.1\n\nConfigure line: --build=x86_64-linux-gnu", "1.17.1"),
            ("dnsdist 1.7.3 (Lua 5.1.4 [LuaJIT 2.1.0-beta3])", "1.7.3"),
            ("Knot Resolver, version 5.6.0\n", "5.6.0"),
            ("knotd, Knot DNS 3.5.8\n", "3.5.8"),
            ("Nov 23 23:00:59 PowerDNS Recursor 5.4.9 (C) PowerDNS.COM BV", "5.4.9"),
        ];
        for (text, version) in cases {
            assert_eq!(version_in(text).as_deref(), Some(version));
        }
        assert_eq!(version_in("no version"), None);
    }

    /// Creates programs in a folder that print these texts.
    fn programs(folder: &Path, printing: &[(&str, &str)]) -> Programs {
        for (name, text) in printing {
            let program = folder.join(name);
            fs::write(&program, format!("#!/bin/sh\necho '{text}'\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let at = |name: &str| folder.join(name);
        Programs {
            nomen: at("nomen"),
            nsd: at("nsd"),
            knotd: at("knotd"),
            named: at("named"),
            pdns: at("pdns_server"),
            unbound: at("unbound"),
            recursor: at("pdns_recursor"),
            dnsdist: at("dnsdist"),
            kresd: at("kresd"),
        }
    }

    #[test]
    fn a_configuration_is_adapted_to_the_version_that_reads_it() {
        for (version, locks, help, flags) in
            [("BIND 9.18.49", true, "--daemon=no", 0), ("BIND 9.20.30", false, "--enable-old-settings=no", 1)]
        {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            let programs = programs(folder, &[("named", version), ("pdns_recursor", help)]);
            fs::write(folder.join("named.conf"), "options { pid-file none; lock-file none; };").unwrap();
            programs.adapt(Kind::Bind, folder).unwrap();
            let text = fs::read_to_string(folder.join("named.conf")).unwrap();
            assert_eq!(text.contains("lock-file"), locks, "{version}: {text}");
            assert!(text.contains("pid-file none;"), "{text}");
            assert_eq!(programs.further_arguments(Kind::Recursor).len(), flags, "{help}");
            assert!(programs.further_arguments(Kind::Bind).is_empty());
        }
    }

    #[test]
    fn nsd_has_a_front_if_it_was_built_with_one_and_gets_the_program_of_its_folder() {
        for (configured, is_there) in [("--enable-xdp", true), ("--disable-xdp", false)] {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            fs::create_dir(folder.join("bin")).unwrap();
            let programs = programs(&folder.join("bin"), &[("nsd", configured)]);
            assert_eq!(programs.has_front(Kind::Nsd), is_there);
            assert!(!programs.has_front(Kind::NsdDefaults) && programs.has_front(Kind::Knot));
            let own = folder.join(NSD_XDP_PROGRAM.trim_start_matches('/'));
            if is_there {
                fs::create_dir_all(own.parent().unwrap()).unwrap();
                fs::write(&own, "").unwrap();
            }
            fs::write(folder.join("nsd.conf"), format!("  xdp-program-path: \"{NSD_XDP_PROGRAM}\"\n"))
                .unwrap();
            programs.adapt(Kind::Nsd, folder).unwrap();
            let text = fs::read_to_string(folder.join("nsd.conf")).unwrap();
            let named = if is_there { own.display().to_string() } else { NSD_XDP_PROGRAM.to_string() };
            assert_eq!(text, format!("  xdp-program-path: \"{named}\"\n"));
        }
    }

    #[test]
    fn powerdns_in_a_folder_of_its_own_gets_the_backend_of_that_folder() {
        let folder = tempfile::tempdir().unwrap();
        let backends = folder.path().join("usr/lib/x86_64-linux-gnu/pdns");
        fs::create_dir(folder.path().join("bin")).unwrap();
        let programs = programs(&folder.path().join("bin"), &[("pdns_server", "5.1.5")]);
        for is_there in [false, true] {
            if is_there {
                fs::create_dir_all(&backends).unwrap();
                fs::write(backends.join("libbindbackend.so"), "").unwrap();
            }
            fs::write(folder.path().join("pdns.conf"), "launch=bind\n").unwrap();
            programs.adapt(Kind::Pdns, folder.path()).unwrap();
            let text = fs::read_to_string(folder.path().join("pdns.conf")).unwrap();
            assert_eq!(text.contains(&format!("module-dir={}\n", backends.display())), is_there, "{text}");
        }
    }
}
