//! Listening sockets that another process opened: those that the service manager passes at the start (socket
//! activation and its file descriptor store, sd_listen_fds(3)), and those of the previous server. Finds the
//! listener for each.

use std::fmt;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use net::{BindError, Bound, Listener, ListenerConfig, PassedFault, PassedSocket};
use transport::Transport;

use config::Settings;
use config::listen::Listen;
use config::table::value::AddrPort;

/// The number of the first passed descriptor.
const FIRST_DESCRIPTOR: RawFd = 3;
/// The name of sockets in the service manager's file descriptor store.
pub(super) const STORED: &str = "nomen-stored";

/// A descriptor as messages show it: its number, and its name if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    number: RawFd,
    name: Option<String>,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Label { number, name } = self;
        match name {
            Some(name) => write!(f, "descriptor {number} ({name})"),
            None => write!(f, "descriptor {number}"),
        }
    }
}

/// Why passed sockets cannot be listened on.
#[derive(Debug)]
pub(super) enum PassingFault {
    /// An environment variable is not a number.
    Variable(&'static str, String),
    /// The descriptor is not a socket that a listener can use.
    Socket(Label, PassedFault),
    /// No listener is configured for this socket.
    Unused(Label, Transport, SocketAddr),
}

impl fmt::Display for PassingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name, value) => {
                write!(f, "{name}={value} in the environment is no number, so what was passed is not known")
            }
            Self::Socket(label, fault) => write!(f, "{label} was passed and cannot be listened on: {fault}"),
            Self::Unused(label, transport, addr) => {
                let addr = AddrPort(*addr);
                write!(
                    f,
                    "{label} was passed, bound to {addr} over {transport}, for which nothing is configured"
                )
            }
        }
    }
}

impl PassingFault {
    /// Returns what the operator can do about it.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::Variable(..) | Self::Socket(_, PassedFault::NotThere) => {
                "LISTEN_PID and LISTEN_FDS in the environment say that sockets were passed; unset them if \
                none were"
                    .into()
            }
            Self::Socket(_, PassedFault::BothFamilies) => {
                "write `BindIPv6Only=ipv6-only` into the socket unit, and lines of their own for IPv4, such \
                as `ListenDatagram=0.0.0.0:53`"
                    .into()
            }
            Self::Socket(..) => {
                "nomen uses sockets of `ListenDatagram=` and `ListenStream=` with IP addresses only".into()
            }
            Self::Unused(_, _, addr) => {
                format!("name {} in [[listen]], or take it out of the socket unit", AddrPort(*addr))
            }
        }
    }

    /// Returns the fault as one sentence, and the hint as another.
    pub(super) fn with_hint(&self) -> String {
        format!("{self}\n  hint: {}", self.hint())
    }
}

/// A passed socket that has no listener yet.
struct Waiting {
    label: Label,
    addr: SocketAddr,
    socket: PassedSocket,
    /// The previous server listened on it, perhaps with another configuration.
    inherited: bool,
}

impl Waiting {
    fn is_for(&self, addr: SocketAddr, transport: Transport) -> bool {
        // Configured addresses have no interface.
        let same = self.addr.ip() == addr.ip() && self.addr.port() == addr.port();
        same && self.socket.transport() == transport.socket()
    }

    fn is_listened_on(&self, listen: &Listen) -> bool {
        let mut transports = listen.proto.iter();
        transports.any(|proto| listen.addr.iter().any(|addr| self.is_for(addr.0, proto.value)))
    }
}

/// The passed sockets that have no listener yet.
#[derive(Default)]
pub(super) struct PassedSockets {
    waiting: Vec<Waiting>,
    notes: Vec<String>,
    by_manager: bool,
}

impl PassedSockets {
    /// Takes the sockets that the environment names, if it is meant for this process, and those of the
    /// previous server, if any. Closes sockets of the previous server that are no longer configured.
    ///
    /// # Errors
    /// [`PassingFault`] at the first socket that cannot be listened on, or that a socket unit passes and
    /// these settings do not use.
    pub(super) fn take(settings: &Settings, inherited: Option<Vec<OwnedFd>>) -> Result<Self, PassingFault> {
        let variable = |name| std::env::var(name).ok();
        let [pid, count, names] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"].map(variable);
        let mut passed = Self::default();
        for label in labels(pid, count, names, std::process::id())? {
            let inherited = label.name.as_deref() == Some(STORED);
            let socket = PassedSocket::take(label.number);
            passed.add(label, socket, inherited)?;
        }
        for descriptor in inherited.into_iter().flatten() {
            let label = Label { number: descriptor.as_raw_fd(), name: Some("handed over".into()) };
            passed.add(label, PassedSocket::of(descriptor), true)?;
        }
        passed.by_manager = passed.waiting.iter().any(|waiting| !waiting.inherited);
        passed.close_unused(settings);
        passed.check(settings).map(|()| passed)
    }

    fn add(
        &mut self,
        label: Label,
        taken: Result<PassedSocket, PassedFault>,
        inherited: bool,
    ) -> Result<(), PassingFault> {
        let found = taken.and_then(|socket| {
            let addr = socket.local_addr().map_err(PassedFault::Io)?;
            Ok((socket, addr))
        });
        match found {
            Ok((socket, addr)) => self.waiting.push(Waiting { label, addr, socket, inherited }),
            Err(fault) if inherited => {
                self.notes.push(format!("{}: it is closed", PassingFault::Socket(label, fault)));
            }
            Err(fault) => return Err(PassingFault::Socket(label, fault)),
        }
        Ok(())
    }

    /// Closes sockets of the previous server that are no longer configured.
    fn close_unused(&mut self, settings: &Settings) {
        let unused = |waiting: &mut Waiting| {
            let is_used = settings.listens.iter().any(|listen| waiting.is_listened_on(listen));
            waiting.inherited && !is_used
        };
        for Waiting { addr, socket, .. } in self.waiting.extract_if(.., unused) {
            let transport = socket.transport();
            let addr = AddrPort(addr);
            self.notes
                .push(format!("{addr} over {transport} is not configured any more: its socket is closed"));
        }
    }

    /// Returns notes for the operator on sockets that were not taken.
    pub(super) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Returns whether a socket unit passed any socket.
    pub(super) fn by_manager(&self) -> bool {
        self.by_manager
    }

    /// Returns whether no socket of a socket unit is left.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.iter().all(|waiting| waiting.inherited)
    }

    /// Returns a listener on all sockets for this address; `None` if there is no such socket.
    pub(super) fn listener(
        &mut self,
        addr: SocketAddr,
        transport: Transport,
        config: &ListenerConfig,
    ) -> Option<Result<Bound, BindError>> {
        let (udp, tcp) = self.extract(addr, transport);
        match (udp.is_empty(), tcp.is_empty()) {
            (false, _) if matches!(transport, Transport::Quic | Transport::H3) => {
                Some(Listener::from_quic(udp, transport, config))
            }
            (false, _) => Some(Listener::from_udp(udp, config)),
            (true, false) => Some(Listener::from_tcp(tcp, transport, config)),
            (true, true) => None,
        }
    }

    /// Returns a listener for each remaining address, in the order in which they were passed.
    pub(super) fn listeners(&mut self, config: &ListenerConfig) -> Vec<Result<Bound, BindError>> {
        let mut listeners = Vec::new();
        while let Some(first) = self.waiting.first() {
            let (addr, transport) = (first.addr, first.socket.transport());
            listeners.extend(self.listener(addr, transport, config));
        }
        listeners
    }

    /// Returns the first TCP socket for this address, if there is one.
    pub(super) fn stream(&mut self, addr: SocketAddr) -> Option<TcpListener> {
        let at = self.waiting.iter().position(|waiting| waiting.is_for(addr, Transport::Tcp))?;
        match self.waiting.remove(at).socket {
            PassedSocket::Tcp(socket) => Some(socket),
            PassedSocket::Udp(_) => None,
        }
    }

    /// Checks that each socket of a socket unit is configured, and that at most one is for each address of
    /// metrics, of the API and of challenges.
    fn check(&self, settings: &Settings) -> Result<(), PassingFault> {
        let mut left: Vec<SocketAddr> = settings.metrics.iter().map(|metrics| metrics.listen.0).collect();
        left.extend(settings.api.iter().flat_map(|api| api.addresses()));
        left.extend(settings.acme.iter().flat_map(|acme| acme.http_addresses().map(|addr| addr.value.0)));
        let for_http = left.clone();
        for waiting in self.waiting.iter().filter(|waiting| !waiting.inherited) {
            let is_for = |addr: &SocketAddr| waiting.is_for(*addr, Transport::Tcp);
            let is_wanted = if for_http.iter().any(is_for) {
                let at = left.iter().position(is_for);
                at.map(|at| left.swap_remove(at)).is_some()
            } else {
                let mut listens = settings.listens.iter();
                !settings.names_addresses() || listens.any(|listen| waiting.is_listened_on(listen))
            };
            if !is_wanted {
                let transport = waiting.socket.transport();
                return Err(PassingFault::Unused(waiting.label.clone(), transport, waiting.addr));
            }
        }
        Ok(())
    }

    fn extract(&mut self, addr: SocketAddr, transport: Transport) -> (Vec<UdpSocket>, Vec<TcpListener>) {
        let (mut udp, mut tcp) = (Vec::new(), Vec::new());
        for waiting in self.waiting.extract_if(.., |waiting| waiting.is_for(addr, transport)) {
            match waiting.socket {
                PassedSocket::Udp(socket) => udp.push(socket),
                PassedSocket::Tcp(socket) => tcp.push(socket),
            }
        }
        (udp, tcp)
    }
}

/// Returns the descriptors that these variables name, if they are meant for the process `own`. Child
/// processes have another number, and so take none.
fn labels(
    pid: Option<String>,
    count: Option<String>,
    names: Option<String>,
    own: u32,
) -> Result<impl Iterator<Item = Label>, PassingFault> {
    let number = |name, value: Option<String>| match value {
        Some(text) => text.parse::<u32>().map(Some).map_err(|_| PassingFault::Variable(name, text)),
        None => Ok(None),
    };
    let count = match number("LISTEN_PID", pid)? {
        Some(pid) if pid == own => number("LISTEN_FDS", count)?.unwrap_or(0),
        _ => 0,
    };
    let last = i32::try_from(count).unwrap_or(i32::MAX).saturating_add(FIRST_DESCRIPTOR);
    Ok((FIRST_DESCRIPTOR..last).map(move |number| {
        let at = usize::try_from(number - FIRST_DESCRIPTOR).unwrap_or(usize::MAX);
        let name = names.as_deref().and_then(|names| names.split(':').nth(at));
        Label { number, name: name.filter(|name| !name.is_empty()).map(str::to_owned) }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pid: &str, count: &str, names: &str) -> Result<Vec<String>, String> {
        let [pid, count, names] = [pid, count, names].map(|text| (text != "-").then(|| text.to_owned()));
        let labels = labels(pid, count, names, 77).map_err(|fault| fault.to_string())?;
        Ok(labels.map(|label| label.to_string()).collect())
    }

    #[test]
    fn the_environment_is_meant_for_one_process() {
        assert_eq!(read("77", "2", "-"), Ok(vec!["descriptor 3".into(), "descriptor 4".into()]));
        for other in [("78", "2", "-"), ("-", "2", "-"), ("77", "0", "-"), ("77", "-", "-"), ("1", "x", "-")]
        {
            assert_eq!(read(other.0, other.1, other.2), Ok(vec![]), "{other:?}");
        }
    }

    #[test]
    fn descriptors_have_names() {
        let named = read("77", "3", "dns:metrics").expect("good");
        assert_eq!(named, ["descriptor 3 (dns)", "descriptor 4 (metrics)", "descriptor 5"]);
        assert_eq!(read("77", "2", ":b:c"), Ok(vec!["descriptor 3".into(), "descriptor 4 (b)".into()]));
    }

    #[test]
    fn what_is_no_number_is_a_fault() {
        for (pid, count, name) in
            [("x", "1", "LISTEN_PID=x"), ("77", "-1", "LISTEN_FDS=-1"), ("", "1", "LISTEN_PID=")]
        {
            let fault = read(pid, count, "-").expect_err("a fault");
            assert!(fault.starts_with(name), "{fault}");
        }
        // However large the count is, no label is allocated before its descriptor is looked up.
        assert!(
            labels(Some("77".into()), Some(u32::MAX.to_string()), None, 77)
                .is_ok_and(|mut all| all.next().is_some())
        );
    }
}
