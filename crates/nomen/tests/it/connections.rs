//! Many TCP connections of some clients, and what others get meanwhile.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, message};

const A: u16 = 1;

/// Connects from an address of the loopback network.
pub(crate) fn connect(from: &str, server: SocketAddr) -> TcpStream {
    let from: IpAddr = from.parse().expect("an address");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::new(from, 0).into()).expect("a local address");
    socket.connect(&server.into()).expect("connected");
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    stream
}

/// Sends a query. Returns whether it was answered before the server closed the connection.
fn is_answered(mut stream: &TcpStream) -> bool {
    let query = message(7, "ns1.example", A);
    let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
    let mut len = [0; 2];
    if stream.write_all(&framed).is_err() || stream.read_exact(&mut len).is_err() {
        return false;
    }
    let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut reply).is_ok() && reply[..2] == query[..2] && reply[3] & 15 == 0
}

/// Returns the sum of a counter over all listeners.
fn counted(server: &Server, name: &str) -> u64 {
    let stats = server.ctl_json(&["stats"]);
    let series = stats.as_object().expect("an object").iter();
    let of_name = series.filter(|(key, _)| key.starts_with(name));
    of_name.filter_map(|(_, value)| value.as_u64()).sum()
}

#[test]
fn the_idle_time_at_full_load_is_the_one_of_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let keys = "tcp-connections = 4\ntcp-connections-per-client = 4\ntcp-idle-timeout = \"1h\"\n\
                tcp-idle-timeout-full = \"30m\"\n";
    let server = Server::start_in(folder, keys, "");
    let time = || {
        let stats = server.ctl_json(&["stats"]);
        stats["nomen_tcp_idle_timeout_seconds"].as_f64().expect("a number")
    };
    assert_eq!(time(), 3600.0);
    let streams: Vec<TcpStream> = (0..4).map(|_| connect("127.1.2.3", server.address)).collect();
    assert!(streams.iter().all(is_answered));
    assert_eq!(time(), 1800.0);
    server.reconfigure("tcp-idle-timeout-full = \"30m\"", "tcp-idle-timeout-full = \"50ms\"");
    server.reload();
    assert_eq!(time(), 0.05);
    assert_eq!(counted(&server, "nomen_net_tcp_timeout_idle_total"), 0);
    // The new time is for connections that do something after the reload.
    assert!(is_answered(&streams[0]));
    eventually("one was closed", &server, || counted(&server, "nomen_net_tcp_timeout_idle_total") > 0);
    eventually("the time is longer again", &server, || time() > 0.05);
}

#[test]
fn clients_of_one_network_kept_all_others_from_connecting() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let server = Server::start_in(
        folder,
        "tcp-connections = 200\ntcp-connections-per-client = 40\ntcp-connections-per-network = 50\n\
         tcp-first-timeout = \"10m\"\ntcp-idle-timeout = \"1h\"\n",
        "",
    );
    let address = server.address;
    // Fewer than half of all: beyond that idle times are shorter, and what is open depends on time.
    let mut flood: Vec<TcpStream> = (0..40).map(|_| connect("127.1.2.3", address)).collect();
    let open = || server.ctl_json(&["status"])["tcp_connections"].as_u64().expect("a number");
    eventually("40 are open", &server, || open() == 40);
    assert!(!is_answered(&connect("127.1.2.3", address)), "the client has as many as it may");
    flood.extend((0..10).map(|_| connect("127.1.2.4", address)));
    eventually("50 are open", &server, || open() == 50);
    assert!(!is_answered(&connect("127.1.2.5", address)), "its network has as many as it may");
    assert_eq!(counted(&server, "nomen_net_tcp_refused_network_total"), 1);
    let others: Vec<TcpStream> = (0..40).map(|n| connect(&format!("127.2.{n}.1"), address)).collect();
    for stream in others.iter().chain(&flood) {
        assert!(is_answered(stream));
    }
    assert_eq!(counted(&server, "nomen_net_tcp_evicted_total"), 0);
    assert_eq!(counted(&server, "nomen_net_tcp_refused_full_total"), 0);
    drop((flood, others));
    eventually("none is left", &server, || open() == 0);
}
