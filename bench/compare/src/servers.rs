//! The servers: how each is configured, started on one CPU, checked for readiness, and ended. README.md
//! explains every choice in a configuration. The queries are defined elsewhere.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::answers::exchange;
use crate::buffers::{Buffers, SOCKET_BUFFER};
use crate::failure::{Context, Failure, Result};
use crate::measure;
use crate::namespaces;
use crate::programs::{Programs, find};
use crate::resolvers::{self, Anchor, Resolving, Source};
use crate::rules::PolicySource;
use crate::sys;
use crate::zones::{Denial, ZoneSet};

/// Variant of a server's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tuning {
    /// As similar as possible: minimal responses, and socket buffers of one size.
    Alike,
    /// With the server's own defaults for these.
    Defaults,
    /// As its manual advises for speed, where the similar configuration differs from that.
    Advised,
}

/// A server that can take part. Some programs take part twice, in different configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum Kind {
    /// This project's server.
    Nomen,
    /// NLnet Labs' NSD.
    Nsd,
    /// NSD with its own defaults.
    NsdDefaults,
    /// CZ.NIC's Knot DNS.
    Knot,
    /// Knot DNS with its own defaults.
    KnotDefaults,
    /// ISC's BIND.
    Bind,
    /// BIND with its own defaults.
    BindDefaults,
    /// PowerDNS Authoritative Server.
    Pdns,
    /// PowerDNS as its manual advises.
    PdnsAdvised,
    /// NLnet Labs' Unbound.
    Unbound,
    /// PowerDNS Recursor.
    Recursor,
    /// PowerDNS' dnsdist.
    Dnsdist,
    /// dnsdist as its manual advises.
    DnsdistAdvised,
    /// CZ.NIC's Knot Resolver.
    Kresd,
    /// Knot Resolver as its manual advises.
    KresdAdvised,
    /// The floor: see `reflector.rs`.
    Reflector,
    /// The floor of a cache miss: see `relay.rs`.
    Relay,
}

impl Kind {
    /// Returns the name in tables, JSON and plots.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Nomen => "nomen",
            Kind::Nsd => "NSD",
            Kind::NsdDefaults => "NSD, defaults",
            Kind::Knot => "Knot",
            Kind::KnotDefaults => "Knot, defaults",
            Kind::Bind => "BIND",
            Kind::BindDefaults => "BIND, defaults",
            Kind::Pdns => "PowerDNS",
            Kind::PdnsAdvised => "PowerDNS, as advised",
            Kind::Unbound => "Unbound",
            Kind::Recursor => "Recursor",
            Kind::Dnsdist => "dnsdist",
            Kind::DnsdistAdvised => "dnsdist, as advised",
            Kind::Kresd => "kresd",
            Kind::KresdAdvised => "kresd, as advised",
            Kind::Reflector => "reflector",
            Kind::Relay => "relay",
        }
    }

    /// Returns the name on the command line, which is also that of its folder.
    pub(crate) fn key(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// Returns the first configuration of the same program.
    pub(crate) fn program(self) -> Kind {
        match self {
            Kind::NsdDefaults => Kind::Nsd,
            Kind::KnotDefaults => Kind::Knot,
            Kind::BindDefaults => Kind::Bind,
            Kind::PdnsAdvised => Kind::Pdns,
            Kind::DnsdistAdvised => Kind::Dnsdist,
            Kind::KresdAdvised => Kind::Kresd,
            own => own,
        }
    }

    /// Returns the variant of its configuration.
    pub(crate) fn tuning(self) -> Tuning {
        match self {
            Kind::NsdDefaults | Kind::KnotDefaults | Kind::BindDefaults => Tuning::Defaults,
            Kind::PdnsAdvised | Kind::DnsdistAdvised | Kind::KresdAdvised => Tuning::Advised,
            _ => Tuning::Alike,
        }
    }

    /// Whether it is the first configuration of its program.
    pub(crate) fn is_first(self) -> bool {
        self.tuning() == Tuning::Alike
    }

    /// Whether it is an authoritative server.
    pub(crate) fn serves_zones(self) -> bool {
        matches!(self.program(), Kind::Nomen | Kind::Nsd | Kind::Knot | Kind::Bind | Kind::Pdns)
    }

    /// Whether it is a caching forwarder.
    pub(crate) fn forwards(self) -> bool {
        matches!(
            self.program(),
            Kind::Nomen | Kind::Bind | Kind::Unbound | Kind::Recursor | Kind::Dnsdist | Kind::Kresd
        )
    }

    /// Whether it uses a fresh port for each query that it forwards (RFC 5452 §9.2): dnsdist reuses its
    /// ports.
    pub(crate) fn takes_fresh_ports(self) -> bool {
        self.forwards() && self.program() != Kind::Dnsdist
    }

    /// Whether it iterates from the root, and validates.
    pub(crate) fn validates(self) -> bool {
        matches!(self.program(), Kind::Nomen | Kind::Bind | Kind::Unbound | Kind::Recursor)
    }

    /// Whether it applies response policy zones.
    pub(crate) fn has_policy(self) -> bool {
        self.validates()
    }

    /// Whether it can be a secondary, and accepts NOTIFY.
    pub(crate) fn takes_zones(self) -> bool {
        matches!(self.program(), Kind::Nomen | Kind::Nsd | Kind::Knot | Kind::Bind)
    }

    /// Whether it accepts dynamic updates of zones that it reads from files.
    pub(crate) fn takes_updates(self) -> bool {
        matches!(self.program(), Kind::Nomen | Kind::Knot | Kind::Bind)
    }

    /// Whether it is a server, and not a floor for one.
    pub(crate) fn answers(self) -> bool {
        !matches!(self, Kind::Reflector | Kind::Relay)
    }
}

/// Parameters of a server's start.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Address and port to listen on.
    pub(crate) address: SocketAddr,
    /// CPU it may use.
    pub(crate) cpu: usize,
    /// Whether it answers by AF_XDP on the interface of [`namespaces`], beside its sockets, and is queried
    /// from the other end.
    pub(crate) xdp: bool,
    /// Folder for its configuration and logs; emptied first, unless `keeps`.
    pub(crate) folder: PathBuf,
    /// Whether it was started there before, and continues with what it stored.
    pub(crate) keeps: bool,
    /// Minimum size of the reflector's responses.
    pub(crate) response_size: usize,
    /// Folder where nomen keeps images of zones. It may then use every CPU until it answers, as images are
    /// read with all of them; only its start is measured.
    pub(crate) state: Option<PathBuf>,
    /// Its role.
    pub(crate) role: Role,
    /// Trust anchor of a validating resolver.
    pub(crate) anchor: Option<Anchor>,
    /// Rules of a resolver.
    pub(crate) policy: PolicySource,
    /// Variant of its configuration.
    pub(crate) tuning: Tuning,
    /// Sizes of socket buffers for servers without a setting for them, unless it has its own defaults.
    pub(crate) buffers: Buffers,
}

/// Role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Answers from zone files.
    Answers,
    /// Answers from zone files; clients with its own address may transfer the zones.
    Sends,
    /// Secondary of this primary; stores zones as it does by default.
    Takes(SocketAddr),
    /// Secondary of this primary for very many small zones, with suitable limits and timers.
    TakesMany(SocketAddr),
    /// Answers from zone files; clients with its own address may update the zones.
    Updated,
    /// Answers from zone files; clients with its own address may update the zones, and this secondary with
    /// the same address gets them.
    Feeds(SocketAddr),
    /// Resolver without zones.
    Resolves(Resolving),
}

impl Settings {
    /// Returns the network namespace of its clients.
    pub(crate) fn client_namespace(&self) -> Option<&'static str> {
        self.xdp.then_some(namespaces::CLIENT)
    }

    /// Returns the settings with AF_XDP. NSD receives only queries to port 53 by it.
    pub(crate) fn behind_af_xdp(mut self, kind: Kind) -> Settings {
        self.xdp = true;
        if kind == Kind::Nsd {
            self.address.set_port(53);
        }
        self
    }
}

/// A running server; dropping it kills all its processes.
pub(crate) struct Server {
    child: Child,
    group: u32,
    log: PathBuf,
    /// Folder in memory, removed with it.
    scratch: Option<PathBuf>,
    /// Its address.
    pub(crate) address: SocketAddr,
    /// Resources that its start took.
    pub(crate) startup: Startup,
}

/// Resources that a server's start took, until it answered for its zones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Startup {
    /// Wall-clock seconds.
    pub(crate) seconds: f64,
    /// CPU seconds.
    pub(crate) cpu: f64,
    /// Memory once it answered.
    pub(crate) memory: measure::Memory,
    /// Share of a CPU used afterwards while idle, if measured.
    pub(crate) idle: Option<f64>,
    /// Growth in bytes per cached name, if measured.
    pub(crate) entry: Option<f64>,
}

impl Server {
    /// Returns the process group, for measurements.
    pub(crate) fn group(&self) -> u32 {
        self.group
    }

    /// Returns its output so far, and NSD's log file.
    pub(crate) fn log(&self) -> String {
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        read(&self.log) + &read(&self.log.with_file_name("nsd.log"))
    }

    /// Returns the log line that says that it uses sockets instead of AF_XDP.
    pub(crate) fn lacks_front(&self) -> Option<String> {
        self.log().lines().find(|line| says_no_front(line)).map(String::from)
    }

    /// Binds all its threads to a CPU. Knot's workers bind themselves to CPUs of their own choice, which may
    /// be the generator's.
    pub(crate) fn pin(&self, cpu: usize) {
        for thread in measure::threads(&measure::processes(self.group)) {
            // A thread may have ended meanwhile.
            let _ = sys::pin(thread, cpu);
        }
    }

    /// Ends it as its operator would, and waits until it has exited.
    pub(crate) fn end(mut self, patience: Duration) -> Result<()> {
        sys::terminate(self.child.id());
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            if sys::interrupted() || began.elapsed() > patience {
                return Err(Failure::new("did not end after SIGTERM"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        sys::kill_group(self.group);
        let _ = self.child.wait();
        // A forked worker may outlive its parent for a moment; its port must be free for the next server.
        let deadline = Instant::now() + Duration::from_secs(10);
        while !measure::processes(self.group).is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(scratch) = &self.scratch {
            let _ = fs::remove_dir_all(scratch);
        }
    }
}

fn says_no_front(line: &str) -> bool {
    ["no AF_XDP", "error: xdp:", "disabling XDP"].iter().any(|words| line.contains(words))
}

/// Starts a server and waits until it answers each probe with NOERROR or NXDOMAIN.
pub(crate) fn start(
    kind: Kind,
    programs: &Programs,
    settings: &Settings,
    zones: &ZoneSet,
    probes: &[Vec<u8>],
    patience: Duration,
) -> Result<Server> {
    if !settings.keeps {
        let _ = fs::remove_dir_all(&settings.folder);
    }
    fs::create_dir_all(&settings.folder)?;
    let scratch = resolvers::scratch(kind, settings);
    if let Some(scratch) = &scratch {
        let _ = fs::remove_dir_all(scratch);
        fs::create_dir(scratch).context(|| scratch.display().to_string())?;
    }
    let program = find(&programs.of(kind)).context(|| format!("{} is not installed", kind.name()))?;
    let arguments = match settings.role {
        Role::Resolves(resolving) if kind.forwards() => resolvers::configure(kind, settings, resolving)?,
        _ => configure(kind.program(), settings, zones)?,
    };
    programs.adapt(kind, &settings.folder)?;
    let log = File::create(settings.folder.join("log"))?;
    let mut command = wrapped(kind, settings, &program);
    command
        .args(arguments)
        .args(programs.further_arguments(kind))
        .current_dir(&settings.folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    let default = settings.tuning == Tuning::Defaults;
    let _raised = (!default).then(|| settings.buffers.raise()).transpose()?;
    let began = Instant::now();
    let child = command.spawn().context(|| format!("cannot start {}", kind.name()))?;
    let group = child.id();
    let log = settings.folder.join("log");
    let (address, startup) = (settings.address, Startup::default());
    let mut server = Server { child, group, log, scratch, address, startup };
    wait(kind, &mut server, settings, probes, began + patience)?;
    let processes = measure::processes(group);
    server.pin(settings.cpu);
    server.startup = Startup {
        seconds: began.elapsed().as_secs_f64(),
        cpu: measure::cpu_time(&processes).with_ended_threads(),
        memory: measure::memory(&processes),
        idle: None,
        entry: None,
    };
    Ok(server)
}

/// Makes a server write its transferred zones to disk, if it does not do so when it ends.
pub(crate) fn write_out(kind: Kind, programs: &Programs, settings: &Settings) -> Result<()> {
    if kind.program() != Kind::Nsd {
        return Ok(());
    }
    let control = programs.nsd.with_file_name("nsd-control");
    let control = find(&control).context(|| "nsd-control is not installed".to_string())?;
    let mut command = Command::new(control);
    command.arg("-c").arg(settings.folder.join("nsd.conf")).arg("write").stdin(Stdio::null());
    let output = command.output().context(|| "nsd-control".to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("nsd-control: {}", String::from_utf8_lossy(&output.stderr).trim_end())))
}

/// Whether nomen has finished an image of a zone in its state folder: a file among the images without the
/// name of an unfinished one.
pub(crate) fn image_is_kept(state: &Path) -> bool {
    let Ok(entries) = fs::read_dir(state.join("images")) else { return false };
    entries.filter_map(|entry| Some(entry.ok()?.path())).any(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with('.') && path.is_file()
    })
}

/// Returns the command line up to the server's own arguments: ends with this process, in the namespace, on
/// one CPU, with what its AF_XDP needs.
fn wrapped(kind: Kind, settings: &Settings, program: &Path) -> Command {
    let mut words: Vec<String> = Vec::new();
    if find(Path::new("setpriv")).is_some() {
        words.extend(["setpriv", "--pdeathsig", "KILL"].map(String::from));
    }
    // With the namespace's own /sys, where AF_XDP servers may look up their interface.
    if settings.xdp {
        words.extend(["ip", "netns", "exec", namespaces::SERVER].map(String::from));
    }
    let last = measure::cpus().max(settings.cpu + 1) - 1;
    let cpus = if settings.state.is_some() { format!("0-{last}") } else { settings.cpu.to_string() };
    words.extend(["taskset".to_string(), "-c".to_string(), cpus]);
    if settings.xdp && kind == Kind::Dnsdist {
        let own = std::env::current_exe().unwrap_or_default().display().to_string();
        let listen = settings.address.to_string();
        words.extend([own, "redirect".to_string(), "--listen".to_string(), listen]);
        words.extend(["--interface", namespaces::SERVER_INTERFACE, "--"].map(String::from));
    }
    let mut command = Command::new(words.remove(0));
    command.args(words).arg(program);
    command
}

fn wait(
    kind: Kind,
    server: &mut Server,
    settings: &Settings,
    probes: &[Vec<u8>],
    deadline: Instant,
) -> Result<()> {
    let failed = |what: &str| {
        let log = fs::read_to_string(settings.folder.join("log")).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(5).collect();
        Failure::new(format!(
            "{} {what}: {}",
            kind.name(),
            tail.into_iter().rev().collect::<Vec<_>>().join(" | ")
        ))
    };
    let began = Instant::now();
    let socket = namespaces::socket(settings.client_namespace(), server.address)?;
    // A server that is not listening yet refuses at once; one that is listening but busy stays silent.
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    for (id, probe) in probes.iter().enumerate() {
        loop {
            let good = |response: &Vec<u8>| response.get(3).is_some_and(|byte| matches!(byte & 15, 0 | 3));
            if exchange(&socket, probe, id as u16).as_ref().is_some_and(good) {
                break;
            }
            if server.child.try_wait()?.is_some() {
                return Err(failed("ended before it answered"));
            }
            if sys::interrupted() {
                return Err(Failure::new("interrupted"));
            }
            if Instant::now() > deadline {
                return Err(failed("did not answer in time"));
            }
            if began.elapsed() > Duration::from_secs(2) && measure::memory_is_short() {
                return Err(failed("needs more memory than there is"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}

/// Writes the configuration and returns the arguments.
fn configure(kind: Kind, settings: &Settings, zones: &ZoneSet) -> Result<Vec<String>> {
    let folder = &settings.folder;
    if let Role::TakesMany(_) = settings.role {
        fs::create_dir_all(folder.join("zones"))?;
    }
    let path = |name: &str| folder.join(name).display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    Ok(match kind {
        Kind::Nomen => {
            fs::write(folder.join("nomen.toml"), nomen(settings, zones))?;
            words(&["serve", "--config", &path("nomen.toml")])
        }
        Kind::Nsd => {
            fs::write(folder.join("nsd.conf"), nsd(settings, zones))?;
            words(&["-d", "-c", &path("nsd.conf")])
        }
        Kind::Knot => {
            fs::write(folder.join("knot.conf"), knot(settings, zones))?;
            words(&["-c", &path("knot.conf")])
        }
        Kind::Bind => {
            fs::write(folder.join("named.conf"), bind(settings, zones))?;
            if let (Role::Updated, Some(zone)) = (settings.role, zones.zones.first()) {
                fs::copy(&zone.file, folder.join("zone"))?;
            }
            words(&["-f", "-4", "-n", "1", "-c", &path("named.conf")])
        }
        Kind::Pdns => {
            fs::write(folder.join("named.conf"), pdns_zones(zones))?;
            fs::write(folder.join("pdns.conf"), pdns(settings, zones))?;
            if zones.denial.is_some() {
                mark_presigned(folder, zones)?;
            }
            words(&[&format!("--config-dir={}", folder.display())])
        }
        Kind::Reflector => {
            let (address, size) = (settings.address.to_string(), settings.response_size.to_string());
            let mut all = words(&["reflector", "--listen", &address, "--size", &size]);
            if settings.xdp {
                all.extend(words(&["--xdp", namespaces::SERVER_INTERFACE]));
            }
            all
        }
        Kind::Relay => {
            let Role::Resolves(Resolving { source: Source::Upstream(upstream), .. }) = settings.role else {
                return Err(Failure::new("a relay needs an upstream"));
            };
            words(&["relay", "--listen", &settings.address.to_string(), "--upstream", &upstream.to_string()])
        }
        other => return Err(Failure::new(format!("{} has no zones", other.name()))),
    })
}

fn origin(name: &str) -> String {
    format!("{name}.")
}

fn nomen(settings: &Settings, zones: &ZoneSet) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let mut text = "[server]\nworkers = 1\n".to_string();
    if let Some(state) = &settings.state {
        let _ = writeln!(text, "state-dir = \"{}\"\nimage-min-records = 1", state.display());
    } else if matches!(settings.role, Role::Takes(_) | Role::TakesMany(_) | Role::Updated | Role::Feeds(_)) {
        let _ = writeln!(text, "state-dir = \"{folder}/state\"");
    }
    let _ = write!(text, "\n[[listen]]\naddr = [\"{ip}@{port}\"]\nproto = [\"udp\", \"tcp\"]\n");
    if settings.xdp {
        let _ = writeln!(text, "xdp = \"{}\"", namespaces::SERVER_INTERFACE);
    }
    let _ =
        write!(text, "\n[rate-limits]\nenable = false\n\n[control]\nsocket = \"{folder}/control.sock\"\n");
    if let Role::TakesMany(primary) = settings.role {
        let _ = write!(
            text,
            "\n[transfers]\nincoming = 64\nincoming-per-primary = 64\n\n[template.small]\n\
             primaries = [\"{}@{}\"]\nmin-refresh = \"1s\"\nmin-retry = \"1s\"\n",
            primary.ip(),
            primary.port()
        );
    }
    for zone in &zones.zones {
        let (name, file) = (origin(&zone.name), zone.file.display());
        let _ = write!(text, "\n[[zone]]\nname = \"{name}\"\n");
        let _ = match settings.role {
            Role::Takes(primary) => {
                writeln!(text, "primaries = [\"{}@{}\"]", primary.ip(), primary.port())
            }
            Role::TakesMany(_) => writeln!(text, "template = \"small\""),
            Role::Sends => writeln!(text, "file = \"{file}\"\nallow-transfer = [\"{ip}\"]"),
            Role::Updated => writeln!(text, "file = \"{file}\"\nallow-update = [\"{ip}\"]"),
            Role::Feeds(secondary) => writeln!(
                text,
                "file = \"{file}\"\nallow-update = [\"{ip}\"]\nallow-transfer = [\"{ip}\"]\n\
                 notify = [\"{}@{}\"]",
                secondary.ip(),
                secondary.port()
            ),
            Role::Answers | Role::Resolves(_) => writeln!(text, "file = \"{file}\""),
        };
    }
    text
}

fn nsd(settings: &Settings, zones: &ZoneSet) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let mut text = format!(
        "server:\n  server-count: 1\n  ip-address: {ip}@{port}\n  port: {port}\n  username: \"\"\n  \
         chroot: \"\"\n  zonesdir: \"{folder}\"\n  database: \"\"\n  pidfile: \"{folder}/nsd.pid\"\n  \
         xfrdfile: \"{folder}/xfrd.state\"\n  xfrdir: \"{folder}\"\n  \
         zonelistfile: \"{folder}/zone.list\"\n  \
         logfile: \"{folder}/nsd.log\"\n  verbosity: 0\n  rrl-ratelimit: 0\n  tcp-count: 1000\n  \
         tcp-query-count: 0\n"
    );
    if settings.tuning != Tuning::Defaults {
        let _ = write!(
            text,
            "  minimal-responses: yes\n  receive-buffer-size: {SOCKET_BUFFER}\n  \
             send-buffer-size: {SOCKET_BUFFER}\n"
        );
    }
    if settings.xdp {
        let interface = namespaces::SERVER_INTERFACE;
        let _ = write!(text, "  xdp-interface: {interface}\n  xdp-program-path: \"{NSD_XDP_PROGRAM}\"\n");
    }
    let _ = match settings.role {
        Role::TakesMany(primary) => write!(
            text,
            "  xfrd-tcp-max: 256\n  xfrd-tcp-pipeline: 256\nremote-control:\n  control-enable: yes\n  \
             control-interface: \"{folder}/nsd.sock\"\npattern:\n  name: \"small\"\n  \
             zonefile: \"{folder}/zones/%s\"\n  request-xfr: {}@{} NOKEY\n  allow-notify: {ip} NOKEY\n",
            primary.ip(),
            primary.port()
        ),
        _ => writeln!(text, "remote-control:\n  control-enable: no"),
    };
    for zone in &zones.zones {
        let name = origin(&zone.name);
        let _ = write!(text, "zone:\n  name: \"{name}\"\n");
        let _ = match settings.role {
            Role::Takes(primary) => writeln!(
                text,
                "  zonefile: \"{folder}/zone\"\n  request-xfr: {}@{} NOKEY\n  allow-notify: {ip} NOKEY",
                primary.ip(),
                primary.port()
            ),
            Role::TakesMany(_) => writeln!(text, "  include-pattern: \"small\""),
            _ => writeln!(text, "  zonefile: \"{}\"", zone.file.display()),
        };
        if settings.role == Role::Sends {
            let _ = writeln!(text, "  provide-xfr: {ip} NOKEY");
        }
    }
    text
}

/// Path of NSD's XDP program in its package.
pub(crate) const NSD_XDP_PROGRAM: &str = "/usr/lib/bpf/nsd/xdp-dns-redirect_kern.o";

fn knot(settings: &Settings, zones: &ZoneSet) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let mut text =
        format!("server:\n  rundir: {folder}\n  listen: {ip}@{port}\n  udp-workers: 1\n  tcp-workers: 1\n");
    text += match settings.role {
        // The workers mostly wait for the primary.
        Role::TakesMany(_) => "  background-workers: 10\n  remote-pool-limit: 10\n",
        _ => "  background-workers: 1\n",
    };
    if settings.xdp {
        let _ = write!(text, "xdp:\n  listen: {}@{port}\n", namespaces::SERVER_INTERFACE);
    }
    let _ = write!(text, "log:\n  - target: stderr\n    any: error\ndatabase:\n  storage: {folder}\n");
    if let Role::Takes(primary) | Role::TakesMany(primary) = settings.role {
        let _ = writeln!(text, "remote:\n  - id: primary\n    address: {}@{}", primary.ip(), primary.port());
    }
    let (action, keys) = match settings.role {
        Role::Takes(_) => (Some("notify"), "    master: primary\n"),
        Role::TakesMany(_) => (Some("notify"), KNOT_WITH_MANY),
        Role::Updated => (Some("update"), "    zonefile-sync: -1\n    zonefile-load: whole\n"),
        Role::Sends => (Some("transfer"), KNOT_FROM_FILES),
        Role::Answers | Role::Feeds(_) | Role::Resolves(_) => (None, KNOT_FROM_FILES),
    };
    if let Some(action) = action {
        let _ = write!(text, "acl:\n  - id: own\n    address: {ip}\n    action: {action}\n");
    }
    let _ = write!(text, "template:\n  - id: default\n    storage: {folder}\n{keys}");
    text += if action.is_some() { "    acl: own\nzone:\n" } else { "zone:\n" };
    for zone in &zones.zones {
        let _ = writeln!(text, "  - domain: {}", origin(&zone.name));
        if !matches!(settings.role, Role::Takes(_) | Role::TakesMany(_)) {
            let _ = writeln!(text, "    file: {}", zone.file.display());
        }
    }
    text
}

/// A primary with zone files: it does not write them, and keeps no copy in its journal.
const KNOT_FROM_FILES: &str = "    journal-content: none\n    zonefile-sync: -1\n    zonefile-load: whole\n";

/// A secondary of many zones: all of them in its journal, none in a file of its own.
const KNOT_WITH_MANY: &str =
    "    master: primary\n    journal-content: all\n    zonefile-sync: -1\n    zonefile-load: none\n";

fn bind(settings: &Settings, zones: &ZoneSet) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let own = ip.to_string();
    let transfers = if settings.role == Role::Sends { &own } else { "none" };
    let alike = if settings.tuning == Tuning::Defaults { String::new() } else { bind_alike() };
    let mut text = format!(
        "options {{ directory \"{folder}\"; pid-file none; session-keyfile none; lock-file none; \
         listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; recursion no; allow-query {{ any; }}; \
         allow-transfer {{ {transfers}; }}; notify no; empty-zones-enable no; dnssec-validation no; \
         zone-statistics none; tcp-clients 1000; tcp-listen-queue 1000;{alike}{} }};\ncontrols {{ }};\n\
         logging {{ category default {{ null; }}; category queries {{ null; }}; }};\n",
        if matches!(settings.role, Role::TakesMany(_)) { BIND_WITH_MANY } else { "" }
    );
    for zone in &zones.zones {
        let name = origin(&zone.name);
        let file = zone.file.display();
        let _ = match settings.role {
            Role::Takes(primary) => writeln!(
                text,
                "zone \"{name}\" {{ type secondary; file \"zone\"; primaries port {} {{ {}; }}; }};",
                primary.port(),
                primary.ip()
            ),
            Role::TakesMany(primary) => writeln!(
                text,
                "zone \"{name}\" {{ type secondary; file \"zones/{name}\"; primaries port {} {{ {}; }}; }};",
                primary.port(),
                primary.ip()
            ),
            // The journal is beside the zone file.
            Role::Updated => {
                writeln!(
                    text,
                    "zone \"{name}\" {{ type primary; file \"zone\"; allow-update {{ {ip}; }}; }};"
                )
            }
            _ => writeln!(text, "zone \"{name}\" {{ type primary; file \"{file}\"; }};"),
        };
    }
    text
}

/// Returns the options that make BIND's answers and socket buffers like those of the others.
pub(crate) fn bind_alike() -> String {
    format!(" minimal-responses yes; udp-receive-buffer {SOCKET_BUFFER}; udp-send-buffer {SOCKET_BUFFER};")
}

/// Its defaults of 10, 2 and 20, and timers of minutes, suit few zones that change seldom.
const BIND_WITH_MANY: &str = " transfers-in 256; transfers-per-ns 256; serial-query-rate 100000; \
                              min-refresh-time 1; min-retry-time 1;";

fn pdns_zones(zones: &ZoneSet) -> String {
    let mut text = String::new();
    for zone in &zones.zones {
        let name = if zone.name.is_empty() { "." } else { &zone.name };
        let _ = writeln!(text, "zone \"{name}\" {{ type master; file \"{}\"; }};", zone.file.display());
    }
    text
}

fn pdns(settings: &Settings, zones: &ZoneSet) -> String {
    let folder = settings.folder.display();
    let (ip, port) = (settings.address.ip(), settings.address.port());
    let mut text = format!(
        "launch=bind\nbind-config={folder}/named.conf\nbind-check-interval=0\n\
         bind-ignore-broken-records=yes\n\
         local-address={ip}\nlocal-port={port}\nsocket-dir={folder}\ndaemon=no\nguardian=no\n\
         receiver-threads=1\ndistributor-threads=1\nretrieval-threads=1\nsigning-threads=1\nloglevel=3\n\
         log-dns-queries=no\n\
         log-dns-details=no\nversion-string=anonymous\nsecurity-poll-suffix=\nmax-tcp-connections=1000\n\
         max-tcp-connections-per-client=0\nmax-tcp-transactions-per-conn=0\nconsistent-backends=yes\n"
    );
    if settings.role == Role::Sends {
        let _ = writeln!(text, "allow-axfr-ips={ip}");
    }
    if settings.tuning == Tuning::Advised {
        text += "reuseport=yes\ncache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\n";
    }
    if zones.denial.is_some() {
        let _ = writeln!(text, "bind-dnssec-db={folder}/dnssec.sqlite");
    }
    text
}

/// Marks the zone as presigned in the database of PowerDNS' bind backend. `pdnsutil` cannot do so in all
/// versions: that of 5.1 does not load this backend.
fn mark_presigned(folder: &Path, zones: &ZoneSet) -> Result<()> {
    let mut text = PDNS_DATABASE.to_string();
    for zone in &zones.zones {
        let name = if zone.name.is_empty() { "." } else { &zone.name };
        // Zones with NSEC3 must be marked before they are loaded; ours have no salt and no iterations.
        let denial = (zones.denial == Some(Denial::Nsec3)).then_some(("NSEC3PARAM", "1 0 0 -"));
        for (kind, content) in denial.into_iter().chain([("PRESIGNED", "1")]) {
            let _ = writeln!(
                text,
                "INSERT INTO domainmetadata (domain, kind, content) VALUES ('{name}', '{kind}', '{content}');"
            );
        }
    }
    let script = folder.join("dnssec.sql");
    fs::write(&script, text)?;
    let mut command = Command::new("sqlite3");
    command.args(["-bail", "-batch"]).arg(folder.join("dnssec.sqlite")).stdin(File::open(&script)?);
    let output = command.output().context(|| "sqlite3".to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("sqlite3: {}", String::from_utf8_lossy(&output.stderr).trim_end())))
}

/// The tables of PowerDNS' bind backend, as `pdnsutil create-bind-db` makes them.
const PDNS_DATABASE: &str = "\
CREATE TABLE domainmetadata (id INTEGER PRIMARY KEY, domain VARCHAR(255) COLLATE NOCASE, \
kind VARCHAR(32) COLLATE NOCASE, content TEXT);
CREATE TABLE cryptokeys (id INTEGER PRIMARY KEY, domain VARCHAR(255) COLLATE NOCASE, \
flags INT NOT NULL, active BOOL, published BOOL DEFAULT 1, content TEXT);
CREATE TABLE tsigkeys (id INTEGER PRIMARY KEY, name VARCHAR(255) COLLATE NOCASE, \
algorithm VARCHAR(50) COLLATE NOCASE, secret VARCHAR(255));
CREATE INDEX domainmetanameindex ON domainmetadata(domain);
CREATE INDEX domainnameindex ON cryptokeys(domain);
CREATE UNIQUE INDEX namealgoindex ON tsigkeys(name, algorithm);
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zones::Zone;

    #[test]
    fn an_image_counts_once_it_is_whole() {
        let state = tempfile::tempdir().unwrap();
        let images = state.path().join("images");
        fs::create_dir(&images).unwrap();
        fs::create_dir(state.path().join("changes")).unwrap();
        for name in ["hash-key", "changes/lock", "images/.unfinished-test"] {
            fs::write(state.path().join(name), "x").unwrap();
            assert!(!image_is_kept(state.path()), "{name}");
        }
        fs::write(images.join("test"), "x").unwrap();
        assert!(image_is_kept(state.path()));
        assert!(!image_is_kept(&state.path().join("missing")));
    }

    fn settings(role: Role) -> Settings {
        Settings {
            address: "127.0.0.1:5399".parse().unwrap(),
            cpu: 0,
            xdp: false,
            folder: PathBuf::from("/f"),
            keeps: false,
            response_size: 0,
            state: None,
            role,
            anchor: None,
            policy: PolicySource::None,
            tuning: Tuning::Alike,
            buffers: Buffers::default(),
        }
    }

    #[test]
    fn behind_af_xdp_the_configuration_names_the_interface() {
        let zones = ZoneSet { key: String::new(), zones: Vec::new(), records: 0, denial: None };
        for xdp in [false, true] {
            let settings = Settings { xdp, ..settings(Role::Answers) };
            let texts = [nomen, knot, nsd].map(|write| write(&settings, &zones));
            assert!(texts.iter().all(|text| text.contains(namespaces::SERVER_INTERFACE) == xdp), "{texts:?}");
        }
    }

    #[test]
    fn answers_and_buffers_are_made_alike_unless_defaults_are_wanted() {
        let zones = ZoneSet { key: String::new(), zones: Vec::new(), records: 0, denial: None };
        let alike = settings(Role::Answers);
        let defaults = Settings { tuning: Tuning::Defaults, ..alike.clone() };
        for (write, minimal) in [
            (nsd as fn(&Settings, &ZoneSet) -> String, "minimal-responses: yes"),
            (bind, "minimal-responses yes;"),
        ] {
            let (first, second) = (write(&alike, &zones), write(&defaults, &zones));
            for words in [minimal, &SOCKET_BUFFER.to_string()] {
                assert!(first.contains(words) && !second.contains(words), "{words}: {first} {second}");
            }
        }
        let advised = Settings { tuning: Tuning::Advised, ..alike.clone() };
        assert!(
            pdns(&advised, &zones).contains("cache-ttl=0") && !pdns(&alike, &zones).contains("cache-ttl")
        );
    }

    #[test]
    fn a_second_column_has_the_program_and_the_duties_of_the_first() {
        let all = Kind::value_variants();
        for kind in all.iter().filter(|kind| !kind.is_first()) {
            let first = kind.program();
            assert!(first.is_first() && kind.name().starts_with(first.name()), "{kind:?}");
            let duties =
                |kind: Kind| (kind.serves_zones(), kind.forwards(), kind.answers(), kind.takes_fresh_ports());
            assert_eq!(duties(*kind), duties(first), "{kind:?}");
        }
        assert!(all.iter().filter(|kind| kind.is_first()).all(|kind| kind.program() == *kind));
        let own_ports = all.iter().filter(|kind| kind.forwards() && !kind.takes_fresh_ports());
        assert_eq!(own_ports.copied().collect::<Vec<_>>(), [Kind::Dnsdist, Kind::DnsdistAdvised]);
    }

    #[test]
    fn a_server_that_goes_on_with_sockets_is_noticed() {
        let nsd = "[2026-11-25 13:57:20.157] nsd[9781]: error: failed to initialize XDP... disabling XDP.";
        assert!(says_no_front(nsd) && says_no_front("reflector: no AF_XDP: permission denied"));
        assert!(!says_no_front("nsd[9783]: notice: nsd started (NSD 4.15.4), pid 9781"));
    }

    #[test]
    fn nsd_takes_port_53_behind_af_xdp() {
        let port = |kind| settings(Role::Answers).behind_af_xdp(kind).address.port();
        assert_eq!((port(Kind::Nsd), port(Kind::Knot)), (53, 5399));
    }

    #[test]
    fn every_configuration_names_every_zone_and_the_port() {
        let zone =
            |name: &str| Zone { name: name.to_string(), file: PathBuf::from(format!("/z/{name}.zone")) };
        let zones =
            ZoneSet { key: String::new(), zones: vec![zone("a"), zone("b")], records: 2, denial: None };
        let settings = settings(Role::Answers);
        for text in [
            nomen(&settings, &zones),
            nsd(&settings, &zones),
            knot(&settings, &zones),
            bind(&settings, &zones),
        ] {
            assert!(
                text.contains("/z/a.zone") && text.contains("/z/b.zone") && text.contains("5399"),
                "{text}"
            );
        }
        assert!(pdns_zones(&zones).contains("/z/b.zone") && pdns(&settings, &zones).contains("5399"));
    }

    #[test]
    fn only_a_server_for_it_sends_takes_or_changes_its_zone() {
        let zone = Zone { name: "a".to_string(), file: PathBuf::from("/z/a.zone") };
        let zones = ZoneSet { key: String::new(), zones: vec![zone], records: 2, denial: None };
        let texts = |role: Role| {
            let settings = settings(role);
            [nomen, nsd, knot, bind, pdns].map(|write| write(&settings, &zones))
        };
        let transfer = [
            "allow-transfer = [\"127.0.0.1\"]",
            "provide-xfr: 127.0.0.1",
            "action: transfer",
            "allow-transfer { 127.0.0.1; }",
            "allow-axfr-ips=127.0.0.1",
        ];
        let primary = "127.0.0.1:5398".parse().unwrap();
        let other = [Role::Answers, Role::Takes(primary), Role::Updated].map(texts);
        for (number, words) in transfer.into_iter().enumerate() {
            assert!(texts(Role::Sends)[number].contains(words), "{words}");
            assert!(other.iter().all(|texts| !texts[number].contains(words)), "{words}");
        }
        let taking = texts(Role::Takes(primary));
        for (text, words) in taking.iter().zip([
            "primaries = [\"127.0.0.1@5398\"]",
            "request-xfr: 127.0.0.1@5398",
            "master: primary",
            "primaries port 5398",
        ]) {
            assert!(text.contains(words) && !text.contains("/z/a.zone"), "{text}");
        }
        let many = texts(Role::TakesMany(primary));
        for (text, words) in many.iter().zip([
            "template = \"small\"",
            "include-pattern: \"small\"",
            "journal-content: all",
            "serial-query-rate",
        ]) {
            assert!(text.contains(words) && text.contains("5398") && !text.contains("/z/a.zone"), "{text}");
        }
        let [nomen, _, knot, bind, _] = texts(Role::Updated);
        assert!(nomen.contains("allow-update = [\"127.0.0.1\"]"), "{nomen}");
        assert!(knot.contains("action: update") && !knot.contains("journal-content: none"), "{knot}");
        assert!(bind.contains("allow-update { 127.0.0.1; }"), "{bind}");
    }
}
