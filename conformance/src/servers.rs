//! Starts and stops the servers on loopback, each with a minimal configuration, as similar as they allow. The
//! configurations of forwarders are in `forwarders`. A server is stopped when its handle is dropped, and by
//! the kernel if the harness dies first.

use crate::answer::{Answer, flag};
use crate::client;
use crate::forwarders;
use crate::network::Namespace;
use crate::programs;
use crate::query::{Query, rtype};
use crate::report::Said;
use crate::zones::Zone;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Offset of nomen's metrics port from its own port.
pub(crate) const METRICS_OFFSET: u16 = 10;
/// Name and secret of the key that signs transfers.
const KEY: (&str, &str) = ("conformance", "3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=");

/// Kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The server of this repository.
    Nomen,
    /// BIND's named.
    Bind,
    /// NSD.
    Nsd,
    /// Knot DNS.
    Knot,
    /// Unbound.
    Unbound,
    /// PowerDNS Recursor.
    Recursor,
    /// dnsdist.
    Dnsdist,
}

/// The authoritative servers.
pub(crate) const AUTHORITATIVE: [Kind; 4] = [Kind::Nomen, Kind::Bind, Kind::Nsd, Kind::Knot];
/// The forwarders.
pub(crate) const FORWARDING: [Kind; 5] =
    [Kind::Nomen, Kind::Bind, Kind::Unbound, Kind::Recursor, Kind::Dnsdist];
/// All of them.
pub(crate) const ALL: [Kind; 7] =
    [Kind::Nomen, Kind::Bind, Kind::Nsd, Kind::Knot, Kind::Unbound, Kind::Recursor, Kind::Dnsdist];

impl Kind {
    /// Returns the name as printed and as accepted by `--server`.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Nomen => "nomen",
            Self::Bind => "bind",
            Self::Nsd => "nsd",
            Self::Knot => "knot",
            Self::Unbound => "unbound",
            Self::Recursor => "recursor",
            Self::Dnsdist => "dnsdist",
        }
    }

    /// Returns the kind with the label `text`.
    pub(crate) fn from_label(text: &str) -> Option<Self> {
        ALL.into_iter().find(|k| k.label() == text)
    }

    /// Returns the program's name, to be found in PATH; for nomen, the path of the release build.
    pub(crate) fn default_program(self) -> PathBuf {
        PathBuf::from(match self {
            Self::Nomen => "target/release/nomen",
            Self::Bind => "named",
            Self::Nsd => "nsd",
            Self::Knot => "knotd",
            Self::Unbound => "unbound",
            Self::Recursor => "pdns_recursor",
            Self::Dnsdist => "dnsdist",
        })
    }

    /// Returns the argument that makes the program print its version.
    pub(crate) fn version_flag(self) -> &'static str {
        match self {
            Self::Nsd => "-v",
            Self::Bind | Self::Knot | Self::Unbound => "-V",
            Self::Nomen | Self::Recursor | Self::Dnsdist => "--version",
        }
    }

    /// Returns the configuration's file name, and the arguments that make the program read it and stay in the
    /// foreground.
    fn invocation(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Nomen => ("config", &["serve", "--config", "config"]),
            Self::Bind => ("config", &["-g", "-c", "config"]),
            Self::Nsd => ("config", &["-d", "-c", "config"]),
            Self::Knot => ("config", &["-c", "config"]),
            Self::Unbound => ("config", &["-d", "-p", "-c", "config"]),
            Self::Recursor => ("recursor.conf", &["--config-dir=.", "--daemon=no"]),
            Self::Dnsdist => ("config", &["--supervised", "--disable-syslog", "-C", "config"]),
        }
    }
}

/// The role of a peer with zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Answers queries.
    Answer,
    /// Is the primary of secondaries. BIND and Knot send changes of their files as differences.
    Primary,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    /// Its kind.
    pub kind: Kind,
    /// Its address, for UDP and TCP.
    pub address: SocketAddr,
    child: Child,
    log: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).stderr(Stdio::null()).status();
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Writes the configuration under `dir`, starts `program` on `port` and waits until it answers for every
    /// zone.
    pub(crate) fn start(
        kind: Kind,
        program: &Path,
        port: u16,
        zones: &[Zone],
        dir: &Path,
        duty: Duty,
    ) -> Result<Self, String> {
        let home = dir.join(kind.label());
        fs::create_dir_all(&home).map_err(|e| format!("{}: {e}", home.display()))?;
        let text = match kind {
            Kind::Nomen => nomen_config(port, &nomen_zones(zones, &home)),
            Kind::Bind => bind_config(port, zones, &home, duty),
            Kind::Nsd => nsd_config(port, zones, &home, duty),
            Kind::Knot => knot_config(port, zones, &home, duty),
            other => return Err(format!("{} serves no zones", other.label())),
        };
        let mut server = Self::spawn(kind, program, port, &text, &home, None)?;
        server.wait_until_ready(zones)?;
        Ok(server)
    }

    /// Starts nomen on `port` as a secondary, given each zone with its primary, and waits until it answers
    /// for every zone.
    pub(crate) fn start_secondary(
        program: &Path,
        port: u16,
        zones: &[(Zone, SocketAddr)],
        home: &Path,
    ) -> Result<Self, String> {
        fs::create_dir_all(home).map_err(|e| format!("{}: {e}", home.display()))?;
        let (key, secret) = KEY;
        let mut text =
            nomen_control(home) + &format!("\n[[tsig-key]]\nname = \"{key}\"\nsecret = \"{secret}\"\n");
        for (zone, primary) in zones {
            let primary = format!("{}@{} key:{key}", primary.ip(), primary.port());
            let _ = write!(text, "\n[[zone]]\nname = '{}'\nprimaries = [\"{primary}\"]\n", zone.name);
        }
        let mut server = Self::spawn(Kind::Nomen, program, port, &nomen_config(port, &text), home, None)?;
        let zones: Vec<_> = zones.iter().map(|(zone, _)| zone.clone()).collect();
        server.wait_until_ready(&zones)?;
        Ok(server)
    }

    /// Writes the configuration under `dir` and starts `program` on `port`, forwarding everything to
    /// `upstream`. Does not wait until it answers.
    pub(crate) fn start_forwarding(
        kind: Kind,
        program: &Path,
        port: u16,
        upstream: SocketAddr,
        dir: &Path,
    ) -> Result<Self, String> {
        let home = dir.join(kind.label());
        fs::create_dir_all(&home).map_err(|e| format!("{}: {e}", home.display()))?;
        let text = forwarders::config(kind, port, upstream, &home)
            .ok_or_else(|| format!("{} does not forward", kind.label()))?;
        Self::spawn(kind, program, port, &text, &home, None)
    }

    /// Writes this configuration under `dir` and starts `program`, which answers at `address`. Does not wait
    /// until it does.
    pub(crate) fn start_as(
        kind: Kind,
        program: &Path,
        address: SocketAddr,
        text: &str,
        dir: &Path,
    ) -> Result<Self, String> {
        let home = dir.join(kind.label());
        fs::create_dir_all(&home).map_err(|e| format!("{}: {e}", home.display()))?;
        let mut server = Self::spawn(kind, program, address.port(), text, &home, None)?;
        server.address = address;
        Ok(server)
    }

    /// Waits until a query that the upstream server answers is answered here.
    pub(crate) fn wait_until_forwarding(&mut self, probe: &Query) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            self.still_runs()?;
            let answers = client::udp(self.address, &[probe.to_wire(0)], Duration::from_millis(100))
                .map_err(|e| e.to_string())?;
            let answer = answers[0].as_deref().and_then(|wire| Answer::parse(wire).ok());
            if answer.is_some_and(|a| matches!(a.rcode, 0 | 3)) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        Err(format!("{} does not forward\n{}", self.kind.label(), self.log_tail()))
    }

    /// Fails if the process has ended; the error contains the end of its log.
    pub(crate) fn still_runs(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(Some(status)) => {
                Err(format!("{} ended at once: {status}\n{}", self.kind.label(), self.log_tail()))
            }
            _ => Ok(()),
        }
    }

    /// Starts nomen in a network namespace, with these sections of its configuration before those of the
    /// zones; one listener must be on port 53 of its loopback. Waits until it answers for every zone.
    pub(crate) fn start_inside(
        namespace: &Namespace,
        program: &Path,
        sections: &str,
        zones: &[Zone],
        dir: &Path,
    ) -> Result<Self, String> {
        fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let text = format!("{sections}{}", nomen_zones(zones, dir));
        let mut server = Self::spawn(Kind::Nomen, program, 53, &text, dir, Some(namespace))?;
        namespace.enter(|| server.wait_until_ready(zones))?;
        Ok(server)
    }

    fn spawn(
        kind: Kind,
        program: &Path,
        port: u16,
        text: &str,
        home: &Path,
        namespace: Option<&Namespace>,
    ) -> Result<Self, String> {
        let (file, arguments) = kind.invocation();
        let config = home.join(file);
        fs::write(&config, programs::adapted(kind, program, text))
            .map_err(|e| format!("{}: {e}", config.display()))?;
        let log = home.join("log");
        let log_file = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let log_too = log_file.try_clone().map_err(|e| e.to_string())?;
        // setpriv makes the kernel end the server when this process ends, however it ends. nomen may be
        // stopped at that moment, and would not receive a weaker signal.
        let signal = if kind == Kind::Nomen { "KILL" } else { "TERM" };
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", signal, "--"]);
        if let Some(namespace) = namespace {
            command.args(["nsenter", &format!("--net={}", namespace.path()), "--"]);
        }
        let child = command
            .arg(program)
            .args(arguments)
            .args(programs::further_arguments(kind, program))
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(log_file)
            .stderr(log_too)
            .spawn()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        Ok(Self { kind, address: (Ipv4Addr::LOCALHOST, port).into(), child, log })
    }

    /// Returns the process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the process a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = i32::try_from(self.child.id()).map_err(|e| e.to_string())?;
        kill(Pid::from_raw(pid), signal).map_err(|e| format!("{} {signal}: {e}", self.kind.label()))
    }

    /// Waits until it answers for every zone.
    pub(crate) fn wait_until_ready(&mut self, zones: &[Zone]) -> Result<(), String> {
        let kind = self.kind;
        let served: Vec<_> = zones.iter().filter(|z| z.is_served_by(kind)).collect();
        self.wait_until(served, |_, _| true, |_| Ok(()))
    }

    /// Waits until `is_due` accepts each zone and its current serial; calls `hint` each time with the zones
    /// that are still missing.
    pub(crate) fn wait_until(
        &mut self,
        zones: Vec<&Zone>,
        is_due: impl Fn(&Zone, u32) -> bool,
        hint: impl Fn(&[&Zone]) -> Result<(), String>,
    ) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(20);
        let mut missing = zones;
        while Instant::now() < end {
            self.still_runs()?;
            let question = |zone: &Zone| Query::plain(zone.name.clone(), rtype::SOA);
            let messages: Vec<_> =
                missing.iter().enumerate().map(|(i, z)| question(z).to_wire(i as u16)).collect();
            let answers = client::udp(self.address, &messages, Duration::from_millis(300))
                .map_err(|e| e.to_string())?;
            let mut answers = answers.iter();
            missing.retain(|zone| {
                let answer = answers.next().and_then(|a| a.as_ref()).and_then(|a| Answer::parse(a).ok());
                !answer.as_ref().and_then(served_serial).is_some_and(|serial| is_due(zone, serial))
            });
            if missing.is_empty() {
                return Ok(());
            }
            hint(&missing)?;
            std::thread::sleep(Duration::from_millis(100));
        }
        let names: Vec<_> = missing.iter().map(|z| z.name.to_string()).collect();
        let end = self.log_tail();
        Err(format!("{} does not serve {} as it should\n{end}", self.kind.label(), names.join(" ")))
    }

    /// Returns a reply of this server, for printing.
    pub(crate) fn said(&self, wire: Option<Vec<u8>>) -> Said {
        Said { who: self.kind.label().to_owned(), address: self.address, wire }
    }

    /// Whether the process runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the whole log.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns the last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        let text = self.log();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }
}

/// Returns the serial of an authoritative answer to a SOA query.
fn served_serial(answer: &Answer) -> Option<u32> {
    let soa = answer.sections[0].iter().find(|record| record.rtype == rtype::SOA)?;
    let numbers = soa.rdata.last_chunk::<20>()?;
    let is_good = answer.rcode == 0 && answer.has(flag::AA);
    is_good.then_some(u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]]))
}

fn nomen_config(port: u16, zones: &str) -> String {
    format!(
        "[server]\nworkers = 1\ncookies = false\n\n[[listen]]\naddr = [\"127.0.0.1@{port}\"]\nproto = [\"udp\", \"tcp\"]\n\n\
         [metrics]\nlisten = \"127.0.0.1@{}\"\n{zones}",
        port + METRICS_OFFSET
    )
}

fn nomen_control(home: &Path) -> String {
    format!("\n[control]\nsocket = \"{}\"\n", home.join("control.sock").display())
}

/// Returns the control socket and the zones, as configuration.
pub(crate) fn nomen_zones(zones: &[Zone], home: &Path) -> String {
    let mut out = nomen_control(home);
    for zone in zones.iter().filter(|z| z.is_served_by(Kind::Nomen)) {
        let _ = write!(out, "\n[[zone]]\nname = '{}'\nfile = \"{}\"\n", zone.name, zone.source.display());
    }
    out
}

fn bind_config(port: u16, zones: &[Zone], home: &Path, duty: Duty) -> String {
    let (key, secret) = KEY;
    let transfers = match duty {
        Duty::Answer => "allow-transfer { none; };".to_owned(),
        Duty::Primary => {
            format!("allow-transfer {{ key {key}; }}; ixfr-from-differences yes; max-ixfr-ratio unlimited;")
        }
    };
    let mut out = format!(
        "key {key} {{ algorithm hmac-sha256; secret \"{secret}\"; }};\noptions {{\n directory \"{home}\"; \
         pid-file \"{home}/pid\"; session-keyfile \"{home}/session.key\";\n \
         managed-keys-directory \"{home}\"; lock-file none;\n \
         listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n \
         recursion no; allow-query {{ any; }}; {transfers} notify no;\n \
         dnssec-validation no; empty-zones-enable no; answer-cookie no; minimal-responses no-auth;\n \
         minimal-any no; edns-udp-size 1232; max-udp-size 1232; check-names primary ignore;\n \
         check-integrity no; check-mx ignore; check-sibling no; check-wildcard no; \
         check-dup-records ignore;\n \
         check-mx-cname ignore; check-srv-cname ignore; check-spf ignore; zero-no-soa-ttl no;\n \
         rrset-order {{ order none; }}; tcp-clients 500; max-records-per-type 0; max-types-per-name 0; \
         version \"conformance\"; server-id none;\n}};\ncontrols {{ }};\n",
        home = home.display()
    );
    for zone in zones.iter().filter(|z| z.is_served_by(Kind::Bind)) {
        let _ =
            writeln!(out, "zone \"{}\" {{ type primary; file \"{}\"; }};", zone.name, zone.full.display());
    }
    out
}

fn nsd_config(port: u16, zones: &[Zone], home: &Path, duty: Duty) -> String {
    let (key, secret) = KEY;
    let transfers = match duty {
        Duty::Answer => String::new(),
        Duty::Primary => format!(" provide-xfr: 127.0.0.1 {key}\n"),
    };
    let mut out = format!(
        "server:\n ip-address: 127.0.0.1@{port}\n username: \"\"\n chroot: \"\"\n zonesdir: \"{home}\"\n \
         database: \"\"\n pidfile: \"{home}/pid\"\n xfrdfile: \"{home}/xfrd.state\"\n xfrdir: \"{home}\"\n \
         zonelistfile: \"{home}/zone.list\"\n \
         server-count: 1\n ipv4-edns-size: 1232\n ipv6-edns-size: 1232\n tcp-count: 200\n hide-version: no\n \
         version: \"conformance\"\n rrl-ratelimit: 0\n rrl-whitelist-ratelimit: 0\n round-robin: no\n \
         minimal-responses: no\n answer-cookie: no\n refuse-any: no\n zonefiles-check: no\n \
         zonefiles-write: 0\n\
         remote-control:\n control-enable: no\n\
         key:\n name: \"{key}\"\n algorithm: hmac-sha256\n secret: \"{secret}\"\n",
        home = home.display()
    );
    for zone in zones.iter().filter(|z| z.is_served_by(Kind::Nsd)) {
        let (name, file) = (&zone.name, zone.full.display());
        let _ = write!(out, "zone:\n name: \"{name}\"\n zonefile: \"{file}\"\n{transfers}");
    }
    out
}

fn knot_config(port: u16, zones: &[Zone], home: &Path, duty: Duty) -> String {
    let (key, secret) = KEY;
    let transfers = match duty {
        Duty::Answer => "zonefile-load: whole\n    journal-content: none",
        Duty::Primary => "zonefile-load: difference\n    journal-content: changes\n    acl: secondaries",
    };
    let mut out = format!(
        "server:\n    listen: 127.0.0.1@{port}\n    rundir: \"{home}\"\n    udp-workers: 1\n    \
         tcp-workers: 1\n    background-workers: 1\n    udp-max-payload: 1232\n    answer-rotation: off\n    \
         version: conformance\ncontrol:\n    listen: \"{home}/knot.sock\"\n\
         log:\n  - target: stderr\n    any: warning\n\
         database:\n    storage: \"{home}\"\n    journal-db-max-size: 500M\n\
         key:\n  - id: {key}\n    algorithm: hmac-sha256\n    secret: {secret}\n\
         acl:\n  - id: secondaries\n    key: {key}\n    action: transfer\n\
         template:\n  - id: default\n    storage: \"{home}\"\n    semantic-checks: soft\n    \
         zonefile-sync: -1\n    {transfers}\nzone:\n",
        home = home.display()
    );
    for zone in zones.iter().filter(|z| z.is_served_by(Kind::Knot)) {
        let _ = write!(out, "  - domain: \"{}\"\n    file: \"{}\"\n", zone.name, zone.full.display());
    }
    out
}
