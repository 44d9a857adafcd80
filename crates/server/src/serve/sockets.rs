//! Opens everything that needs privileges, then gives them up.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};

use net::{BindError, Bound, Listener, ListenerConfig, XdpConfig};
use socket2::{Domain, Protocol, Socket as Socket2, Type};
use transport::Transport;

use super::confinement::{self, ConfinementFault};
use super::passed::PassedSockets;
use crate::config_source::Prepared;
use crate::privileges::{self, UserFault};
use config::table::value::AddrPort;
use config::{ListenSocket, Settings};
use control::socket::{Socket, SocketFault};
use sandbox::PrivilegeFault;
use telemetry::process::{UserIds, is_root};
use zone_manager::zones::images;

/// Connections for metrics or the API that the kernel queues until they are accepted.
const HTTP_BACKLOG: i32 = 128;

/// Why the start ends while sockets are opened and privileges given up.
#[derive(Debug)]
pub(super) enum OpenFault {
    /// The configured user or group has no number.
    User(UserFault),
    /// An address cannot be listened on.
    Listen(BindError),
    /// A passed socket cannot be listened on.
    Passed(BindError),
    /// There is no address to listen on.
    NoAddress,
    /// An address for metrics or the API cannot be listened on.
    Http(HttpUse, AddrPort, io::Error),
    /// There is no control socket.
    Control(SocketFault),
    /// The process runs as root, and cannot become another user.
    StaysRoot(PrivilegeFault),
    /// Capabilities cannot be given up.
    Privileges(PrivilegeFault),
    /// The process does not get into its sandbox.
    Sandbox(ConfinementFault),
}

/// What a listener for HTTP serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpUse {
    Metrics,
    Api,
    Acme,
}

impl HttpUse {
    fn section(self) -> &'static str {
        match self {
            Self::Metrics => "[metrics]",
            Self::Api => "[api]",
            Self::Acme => "[acme]",
        }
    }
}

impl fmt::Display for HttpUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metrics => "metrics",
            Self::Api => "the API",
            Self::Acme => "the challenge http-01",
        })
    }
}

impl fmt::Display for OpenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(fault) => fault.fmt(f),
            Self::Listen(e) => match hint(e) {
                Some(hint) => write!(f, "{e}\n  hint: {hint}"),
                None => e.fmt(f),
            },
            Self::Passed(e) => e.fmt(f),
            Self::NoAddress => f.write_str("there is no address to listen on"),
            Self::Http(wanted, addr, e) => {
                write!(f, "cannot listen on {addr} for {wanted}: {}", wording::reason(e))?;
                match e.kind() {
                    io::ErrorKind::AddrNotAvailable => write!(
                        f,
                        "\n  hint: see this machine's addresses with `ip address`, or set `freebind = true` \
                        in {}",
                        wanted.section()
                    ),
                    _ => Ok(()),
                }
            }
            Self::Control(fault) => fault.fmt(f),
            Self::StaysRoot(fault) => {
                write!(f, "refusing to run with privileges that cannot be given up: {fault}")
            }
            Self::Privileges(fault) => fault.fmt(f),
            Self::Sandbox(fault) => fault.fmt(f),
        }
    }
}

/// Everything that was opened before privileges were given up.
pub(super) struct Sockets {
    pub(super) dns: Vec<Bound>,
    pub(super) metrics: Option<TcpListener>,
    pub(super) api: Vec<TcpListener>,
    /// Of the challenge http-01.
    pub(super) acme: Vec<TcpListener>,
    pub(super) control: Option<Socket>,
    /// Whether a socket unit passed sockets.
    pub(super) are_passed: bool,
    /// Notes for the operator, logged once there is a log.
    pub(super) notes: Vec<String>,
}

impl Sockets {
    pub(super) fn open(
        prepared: &Prepared,
        built_in: bool,
        mut passed: PassedSockets,
    ) -> Result<Self, OpenFault> {
        let settings = &prepared.settings;
        raise_descriptor_limit();
        let wanted = &settings.server.privileges;
        let ids = match wanted.user.as_deref() {
            Some(user) => Some(privileges::find(user, wanted.group.as_deref()).map_err(OpenFault::User)?),
            None => None,
        };
        let (mut notes, are_passed) = (passed.notes(), !passed.is_empty());
        let metrics = bind_metrics(settings, &mut passed, &mut notes)?;
        let api = bind_api(settings, &mut passed, &mut notes)?;
        let acme = bind_acme(settings, &mut passed, &mut notes)?;
        let dns = bind(settings, built_in, &mut passed, &mut notes)?;
        let control = bind_control(settings, built_in, ids, &mut notes)?;
        make_state_folder(settings, built_in, ids, &mut notes);
        give_up_privileges(ids, &mut notes)?;
        let at = control.as_ref().map(|control| control.path.as_path());
        notes.extend(confinement::enter(prepared, at).map_err(OpenFault::Sandbox)?);
        Ok(Self { dns, metrics, api, acme, control, are_passed, notes })
    }
}

/// Makes the state folder while privileges allow it. Without it, zones are read from text or transferred.
fn make_state_folder(settings: &Settings, built_in: bool, ids: Option<UserIds>, notes: &mut Vec<String>) {
    let folder = settings.server.storage.folder().filter(|_| !built_in);
    let owner = ids.filter(|_| is_root());
    notes.extend(
        folder.and_then(|folder| images::make_folder(&folder, owner).err()).map(|fault| fault.to_string()),
    );
}

/// Returns a listener for an address, on the sockets passed for it or else on new ones. New sockets are not
/// mixed with passed ones: the kernel lets sockets share an address only if one user opened all of them.
pub(super) fn open(
    addr: SocketAddr,
    transport: Transport,
    config: &ListenerConfig,
    passed: &mut PassedSockets,
) -> Result<Bound, BindError> {
    passed.listener(addr, transport, config).unwrap_or_else(|| Listener::bind(addr, transport, config))
}

/// An open socket.
pub(super) struct OpenSocket<T> {
    socket: T,
    /// A note for the operator, if no interface has the address yet.
    note: Option<String>,
}

/// Opens a listener as [`open`] does, for an address that no interface may have yet: the listener receives
/// queries as soon as an interface has the address.
pub(super) fn open_early(
    addr: SocketAddr,
    transport: Transport,
    freebind: bool,
    config: &ListenerConfig,
    passed: &mut PassedSockets,
) -> Result<OpenSocket<Bound>, BindError> {
    match open(addr, transport, config, passed) {
        Err(e) if freebind && e.fault == net::BindFault::NoSuchAddress => {
            let early = ListenerConfig { freebind: true, ..config.clone() };
            let note = format!(
                "listening on {transport} {addr}, which no interface has yet: queries are answered as soon \
                as one has it"
            );
            Ok(OpenSocket { socket: Listener::bind(addr, transport, &early)?, note: Some(note) })
        }
        opened => opened.map(|socket| OpenSocket { socket, note: None }),
    }
}

/// Opens every listening socket. If no address is configured, listens on the passed sockets.
fn bind(
    settings: &Settings,
    built_in: bool,
    passed: &mut PassedSockets,
    notes: &mut Vec<String>,
) -> Result<Vec<Bound>, OpenFault> {
    let config = settings.net_config();
    if !passed.is_empty() && !settings.names_addresses() {
        return passed.listeners(&config).into_iter().map(|bound| bound.map_err(OpenFault::Passed)).collect();
    }
    let mut bound = Vec::new();
    // By interface.
    let mut fronts: BTreeMap<String, XdpFront> = BTreeMap::new();
    for ListenSocket { listen, addr, transport, with_h3 } in settings.sockets() {
        // Every machine has the built-in addresses.
        let freebind = *listen.freebind && !built_in;
        let config = ListenerConfig { with_h3, ..config.clone() };
        match open_early(addr.value.0, transport, freebind, &config, passed) {
            Ok(OpenSocket { socket, note }) => {
                notes.extend(note);
                if let (Transport::Udp, Some(xdp)) = (transport, listen.xdp_config()) {
                    let front = || XdpFront { config: xdp.clone(), listeners: Vec::new() };
                    let front = fronts.entry(xdp.interface.clone()).or_insert_with(front);
                    front.listeners.push(bound.len());
                }
                bound.push(socket);
            }
            // The built-in configuration includes IPv6, which the machine may lack.
            Err(e) if built_in && addr.value.0.is_ipv6() && is_missing(&e) => notes.push(e.to_string()),
            Err(e) => return Err(OpenFault::Listen(e)),
        }
    }
    if bound.is_empty() {
        return Err(OpenFault::NoAddress);
    }
    put_fronts(&fronts, &config, &mut bound, notes);
    Ok(bound)
}

/// An AF_XDP front on an interface.
struct XdpFront {
    config: XdpConfig,
    /// The indexes of the listeners behind it.
    listeners: Vec<usize>,
}

/// Puts the configured AF_XDP fronts before their listeners; if a front cannot be opened, the sockets receive
/// its queries, with a note for the operator.
fn put_fronts(
    fronts: &BTreeMap<String, XdpFront>,
    config: &ListenerConfig,
    bound: &mut Vec<Bound>,
    notes: &mut Vec<String>,
) {
    let mut opened = Vec::new();
    for (interface, front) in fronts {
        let behind: Vec<&Bound> = front.listeners.iter().filter_map(|&at| bound.get(at)).collect();
        match Listener::xdp(&behind, config, &front.config) {
            Ok(front) => opened.push(front),
            Err(e) => {
                notes.push(format!("no AF_XDP on {interface}, its queries go through the sockets: {e}"))
            }
        }
    }
    // Fronts are stopped first, so that packets they no longer take still reach the sockets.
    bound.splice(0..0, opened);
}

fn is_missing(e: &BindError) -> bool {
    matches!(e.fault, net::BindFault::NoSuchAddress | net::BindFault::NoSuchFamily)
}

/// Returns what the operator can do about an address that cannot be opened.
pub(super) fn hint(e: &BindError) -> Option<String> {
    let port = e.addr.port();
    Some(match e.fault {
        net::BindFault::AddressInUse => format!(
            "see what it is with `ss -lnp 'sport = :{port}'`, stop it, or choose another address in \
            [[listen]]"
        ),
        net::BindFault::PermissionDenied => {
            "start nomen as root with `user` set in [server], or choose a port above 1023".into()
        }
        net::BindFault::NoSuchAddress => {
            "see this machine's addresses with `ip address`, or set `freebind = true` in [[listen]] to \
            listen before an interface has it"
                .into()
        }
        _ => return None,
    })
}

/// Returns a listener for HTTP, passed or bound.
pub(super) fn open_http(
    wanted: HttpUse,
    addr: AddrPort,
    freebind: bool,
    passed: &mut PassedSockets,
) -> io::Result<OpenSocket<TcpListener>> {
    match passed.stream(addr.0).map_or_else(|| TcpListener::bind(addr.0), Ok) {
        Err(e) if freebind && e.kind() == io::ErrorKind::AddrNotAvailable => {
            let note = format!(
                "listening on {addr} for {wanted}, which no interface has yet: requests are answered as soon \
                as one has it"
            );
            Ok(OpenSocket { socket: bind_early(addr.0)?, note: Some(note) })
        }
        opened => opened.map(|socket| OpenSocket { socket, note: None }),
    }
}

/// Binds a listener to an address that no interface needs to have.
fn bind_early(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket2::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv4() { socket.set_freebind_v4(true) } else { socket.set_freebind_v6(true) }?;
    socket.bind(&addr.into())?;
    socket.listen(HTTP_BACKLOG)?;
    Ok(socket.into())
}

fn bind_metrics(
    settings: &Settings,
    passed: &mut PassedSockets,
    notes: &mut Vec<String>,
) -> Result<Option<TcpListener>, OpenFault> {
    let Some(metrics) = &settings.metrics else { return Ok(None) };
    bind_http(HttpUse::Metrics, metrics.listen.value, *metrics.freebind, (passed, notes)).map(Some)
}

fn bind_api(
    settings: &Settings,
    passed: &mut PassedSockets,
    notes: &mut Vec<String>,
) -> Result<Vec<TcpListener>, OpenFault> {
    let addresses =
        settings.api.iter().flat_map(|api| api.listen.iter().map(|addr| (addr.value, *api.freebind)));
    addresses.map(|(addr, freebind)| bind_http(HttpUse::Api, addr, freebind, (passed, notes))).collect()
}

fn bind_acme(
    settings: &Settings,
    passed: &mut PassedSockets,
    notes: &mut Vec<String>,
) -> Result<Vec<TcpListener>, OpenFault> {
    let addresses = settings.acme.iter().flat_map(|acme| acme.http_addresses().map(|addr| addr.value));
    addresses.map(|addr| bind_http(HttpUse::Acme, addr, false, (passed, notes))).collect()
}

/// Returns a listener for HTTP that does not block.
fn bind_http(
    wanted: HttpUse,
    addr: AddrPort,
    freebind: bool,
    (passed, notes): (&mut PassedSockets, &mut Vec<String>),
) -> Result<TcpListener, OpenFault> {
    let opened = open_http(wanted, addr, freebind, passed).and_then(|OpenSocket { socket, note }| {
        notes.extend(note);
        socket.set_nonblocking(true).map(|()| socket)
    });
    opened.map_err(|e| OpenFault::Http(wanted, addr, e))
}

fn bind_control(
    settings: &Settings,
    built_in: bool,
    ids: Option<UserIds>,
    notes: &mut Vec<String>,
) -> Result<Option<Socket>, OpenFault> {
    if !*settings.control.enable {
        return Ok(None);
    }
    let wanted = settings.control.socket.value.as_deref();
    match Socket::bind(wanted, ids) {
        Ok(socket) => Ok(Some(socket)),
        // A trial run must not fail because another one is running.
        Err(e) if built_in => {
            notes.push(format!("no control socket: {e}"));
            Ok(None)
        }
        Err(e) => Err(OpenFault::Control(e)),
    }
}

fn give_up_privileges(ids: Option<UserIds>, notes: &mut Vec<String>) -> Result<(), OpenFault> {
    // If it may not, work beside which queries are answered has a low priority instead.
    threads::spare::allow_rest();
    match ids {
        Some(ids) if is_root() => privileges::become_user(ids).map_err(OpenFault::StaysRoot),
        Some(_) => {
            notes.push("`user` has no effect: nomen was not started as root".into());
            sandbox::capabilities::give_up().map_err(OpenFault::Privileges)
        }
        None if is_root() => {
            notes.push("running as root: set `user` in [server] so that root is given up".into());
            Ok(())
        }
        None => sandbox::capabilities::give_up().map_err(OpenFault::Privileges),
    }
}

/// Raises the limit of open files to the hard limit: many TCP connections need many descriptors.
fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // With a lower limit there are fewer connections, which are counted and reported.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
