//! A relay between resolvers and the server of all zones: it forwards everything and counts queries. A second
//! socket counts queries and never answers.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::client;

/// Address of the relay: the only address of all zones' servers.
pub(crate) const RELAY: Ipv4Addr = Ipv4Addr::new(198, 18, 66, 1);
/// Address of the server that counts queries and never answers.
pub(crate) const SILENT: Ipv4Addr = Ipv4Addr::new(198, 18, 66, 2);

/// Counts of queries.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// All queries.
    pub all: AtomicU64,
    /// Queries for names in `vic.`.
    pub victim: AtomicU64,
}

impl Counted {
    fn add(&self, query: &[u8]) {
        self.all.fetch_add(1, Ordering::Relaxed);
        let name = crate::name::Name::from_wire(query.get(12..).unwrap_or_default());
        if name.is_some_and(|(name, _)| name.0.last().is_some_and(|l| l.eq_ignore_ascii_case(b"vic"))) {
            self.victim.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Starts both, on threads that end with the process.
pub(crate) fn start(server: SocketAddr) -> Result<Arc<Counted>, String> {
    let counted = Arc::new(Counted::default());
    let failed = |e: std::io::Error| format!("relay: {e}");
    let udp = UdpSocket::bind((RELAY, 53)).map_err(failed)?;
    let tcp = TcpListener::bind((RELAY, 53)).map_err(failed)?;
    let silent = UdpSocket::bind((SILENT, 53)).map_err(failed)?;
    let (by_udp, by_tcp, in_vain) = (Arc::clone(&counted), Arc::clone(&counted), Arc::clone(&counted));
    std::thread::spawn(move || datagrams(&udp, server, &by_udp));
    std::thread::spawn(move || {
        for stream in tcp.incoming().flatten() {
            let counted = Arc::clone(&by_tcp);
            std::thread::spawn(move || connection(stream, server, &counted));
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(len) = silent.recv(&mut buffer) {
            in_vain.add(&buffer[..len]);
        }
    });
    Ok(counted)
}

/// Forwards one datagram at a time: the server is on this machine.
fn datagrams(socket: &UdpSocket, server: SocketAddr, counted: &Counted) {
    let mut buffer = [0; 65_535];
    while let Ok((len, client)) = socket.recv_from(&mut buffer) {
        counted.add(&buffer[..len]);
        let asked = || -> std::io::Result<()> {
            let way = UdpSocket::bind((RELAY, 0))?;
            way.connect(server)?;
            way.set_read_timeout(Some(Duration::from_secs(1)))?;
            way.send(&buffer[..len])?;
            let mut reply = [0; 65_535];
            let len = way.recv(&mut reply)?;
            socket.send_to(&reply[..len], client).map(drop)
        };
        // Resolvers repeat queries whose answers are lost.
        let _ = asked();
    }
}

fn connection(mut client: TcpStream, server: SocketAddr, counted: &Counted) -> std::io::Result<()> {
    let mut way = TcpStream::connect(server)?;
    loop {
        let query = client::read_message(&mut client)?;
        counted.add(&query);
        way.write_all(&client::framed(&query))?;
        let reply = client::read_message(&mut way)?;
        client.write_all(&client::framed(&reply))?;
    }
}
