//! Hostile primaries against a whole secondary: the version in service stays, limits hold, memory is bounded,
//! and other zones are served meanwhile.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Server, eventually, free_address, written};

const SOA: u16 = 6;
const A: u16 = 1;
const IXFR: u16 = 251;

/// Returns a record of `owner`, a name in wire format or a pointer.
fn record(owner: &[u8], rtype: u16, rdata: &[u8]) -> Vec<u8> {
    let len = (rdata.len() as u16).to_be_bytes();
    [owner, &rtype.to_be_bytes(), &[0, 1, 0, 0, 0, 60], &len, rdata].concat()
}

/// Returns the SOA of the requested zone: refresh and retry of an hour, expire of a day.
fn soa(serial: u32) -> Vec<u8> {
    let numbers = [serial, 3600, 3600, 86_400, 60].map(u32::to_be_bytes).concat();
    record(&[0xc0, 12], SOA, &[&[0, 0][..], &numbers].concat())
}

fn address(last: u8) -> Vec<u8> {
    record(&[1, b'h', 0xc0, 12], A, &[192, 0, 2, last])
}

/// A query to a primary.
struct Asked {
    id: [u8; 2],
    question: Vec<u8>,
    qtype: u16,
}

impl Asked {
    fn of(query: &[u8]) -> Asked {
        let name = query[12..].iter().position(|byte| *byte == 0).expect("a name") + 13;
        let question = query[12..name + 4].to_vec();
        Asked {
            id: [query[0], query[1]],
            question,
            qtype: u16::from_be_bytes([query[name], query[name + 1]]),
        }
    }

    /// Returns a response with these records.
    fn response(&self, records: &[Vec<u8>]) -> Vec<u8> {
        let count = (records.len() as u16).to_be_bytes();
        let head = [&self.id[..], &[0x84, 0, 0, 1], &count, &[0; 4]].concat();
        [head, self.question.clone(), records.concat()].concat()
    }

    /// Returns a response with its length field.
    fn framed(&self, records: &[Vec<u8>]) -> Vec<u8> {
        framed(&self.response(records))
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// What a primary does on a connection after a transfer request. An error means that the client has closed
/// it.
type Script = fn(&mut TcpStream, &Asked) -> std::io::Result<()>;

/// A primary of any zone that follows a script.
struct Primary {
    address: SocketAddr,
    now: Arc<Mutex<(u32, Script)>>,
    /// Connections open now, their maximum, and their total.
    open: Arc<[AtomicUsize; 3]>,
}

impl Primary {
    fn start(serial: u32, script: Script) -> Primary {
        let (tcp, udp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().expect("bound")) {
                break (tcp, udp);
            }
        };
        let address = tcp.local_addr().expect("bound");
        let (now, open) = (Arc::new(Mutex::new((serial, script))), Arc::<[AtomicUsize; 3]>::default());
        let of_udp = Arc::clone(&now);
        std::thread::spawn(move || {
            let mut query = [0; 2048];
            while let Ok((len, from)) = udp.recv_from(&mut query) {
                let serial = of_udp.lock().expect("no panic").0;
                // The client may have closed its socket.
                let _ = udp.send_to(&Asked::of(&query[..len]).response(&[soa(serial)]), from);
            }
        });
        let (of_tcp, counts) = (Arc::clone(&now), Arc::clone(&open));
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                let (mut stream, (_, script)) =
                    (stream.expect("a client"), *of_tcp.lock().expect("no panic"));
                let [open, most, all] = &*counts;
                most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                all.fetch_add(1, Ordering::SeqCst);
                let counts = Arc::clone(&counts);
                std::thread::spawn(move || {
                    let mut len = [0; 2];
                    let asked = stream.read_exact(&mut len).and_then(|()| {
                        let mut query = vec![0; usize::from(u16::from_be_bytes(len))];
                        stream.read_exact(&mut query).map(|()| Asked::of(&query))
                    });
                    // Any error ends the connection.
                    let _ = asked.and_then(|asked| script(&mut stream, &asked));
                    counts[0].fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Primary { address, now, open }
    }

    fn becomes(&self, serial: u32, script: Script) {
        *self.now.lock().expect("no panic") = (serial, script);
    }
}

/// Sends a valid transfer, of serial 1 or 9.
fn good(serial: u32, stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    stream.write_all(&asked.framed(&[
        soa(serial),
        record(&[0xc0, 12], 2, &[0]),
        address(serial as u8),
        soa(serial),
    ]))
}

fn first(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    good(1, stream, asked)
}

fn older(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    good(0, stream, asked)
}

fn last(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    good(9, stream, asked)
}

/// Sends records without an end, for any request.
fn endless(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    stream.write_all(&asked.framed(&[soa(2), address(2)]))?;
    let hosts: Vec<Vec<u8>> = (0..1000_u32)
        .map(|n| record(&[&[4][..], &n.to_be_bytes(), &[0xc0, 12]].concat(), A, &[192, 0, 2, 2]))
        .collect();
    let message = asked.framed(&hosts);
    loop {
        stream.write_all(&message)?;
    }
}

/// Sends differences without an end, or a whole zone without an end.
fn million_differences(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    if asked.qtype != IXFR {
        return endless(stream, asked);
    }
    stream.write_all(&asked.framed(&[soa(2_000_000_000), soa(1)]))?;
    let mut serial = 2;
    loop {
        let steps: Vec<Vec<u8>> =
            (serial..serial + 500).flat_map(|serial| [soa(serial), soa(serial)]).collect();
        stream.write_all(&asked.framed(&steps))?;
        serial += 500;
    }
}

/// Sends one difference without an end.
fn endless_difference(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    if asked.qtype != IXFR {
        return outside(stream, asked);
    }
    stream.write_all(&asked.framed(&[soa(2), soa(1), soa(2)]))?;
    let text = record(&[1, b't', 0xc0, 12], 16, &[&[250][..], &[b'x'; 250]].concat());
    let message = asked.framed(&vec![text; 200]);
    loop {
        stream.write_all(&message)?;
    }
}

/// Sends a zone, or a difference, with 20,000 names, each below a hundred empty non-terminals.
fn deep(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    match asked.qtype {
        IXFR => stream.write_all(&asked.framed(&[soa(2), soa(1), soa(2)]))?,
        _ => stream.write_all(&asked.framed(&[soa(2), record(&[0xc0, 12], 2, &[0])]))?,
    }
    let host = |n: u32| {
        let owner = [&[1, b'x'].repeat(100)[..], &[4], &n.to_be_bytes(), &[0xc0, 12]].concat();
        record(&owner, A, &[192, 0, 2, 2])
    };
    for message in 0..100 {
        let hosts: Vec<Vec<u8>> = (message * 200..(message + 1) * 200).map(host).collect();
        stream.write_all(&asked.framed(&hosts))?;
    }
    stream.write_all(&asked.framed(&[soa(2)]))
}

fn outside(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    let elsewhere = record(b"\x05other\0", A, &[192, 0, 2, 2]);
    stream.write_all(&asked.framed(&[soa(2), address(2), elsewhere, soa(2)]))
}

fn other_end(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    stream.write_all(&asked.framed(&[soa(2), address(2), soa(3)]))
}

fn garbage(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    stream.write_all(&asked.framed(&[soa(2), address(2)]))?;
    stream
        .write_all(&framed(&[&asked.id[..], &[0x84, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0], &[0xff; 300]].concat()))
}

fn pointers_in_a_circle(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    let at = 12 + asked.question.len() as u8 + soa(2).len() as u8;
    stream.write_all(&asked.framed(&[soa(2), record(&[0xc0, at], A, &[192, 0, 2, 2]), soa(2)]))
}

fn cut(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    let message = asked.framed(&[soa(2), address(2)]);
    stream.write_all(&message)?;
    stream.write_all(&message[..message.len() - 5])
}

/// Sends a byte every 100 ms, without an end.
fn drip(stream: &mut TcpStream, asked: &Asked) -> std::io::Result<()> {
    for byte in asked.framed(&[soa(2), address(2)]).into_iter().cycle() {
        stream.write_all(&[byte])?;
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Sends nothing.
fn silent(stream: &mut TcpStream, _: &Asked) -> std::io::Result<()> {
    stream.read_exact(&mut [0])
}

/// Returns the peak memory of a process in bytes.
pub(crate) fn peak(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn zone(name: &str, primary: &Primary) -> String {
    format!("[[zone]]\nname = \"{name}\"\nprimaries = [{}]\nmin-retry = \"1h\"\n", written(primary.address))
}

#[test]
fn whatever_a_primary_sends_what_is_in_service_stays() {
    let primary = Primary::start(1, first);
    // Enough for a hundred thousand differences of only SOAs.
    let limits = "[transfers]\nincoming-max-size = \"16MiB\"\nincoming-max-time = \"600s\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_at(
        free_address(),
        folder,
        "state-dir = \"state\"\n",
        &(zone("example", &primary) + limits),
    );
    let known = || server.ctl_json(&["zone", "status", "example"]);
    let answers = |last: u8| server.query(&["h.example", "A"]).contains(&format!("192.0.2.{last}"));
    eventually("it is taken", &server, || answers(1));
    let before = peak(&server);
    let too_slow = "incoming-max-time = \"2s\"\n";
    let scripts: [(&str, Script, &str); 9] = [
        ("outside", outside, "is outside the zone"),
        ("other end", other_end, "the SOA at the end is not"),
        ("garbage", garbage, "cannot be read"),
        ("pointers", pointers_in_a_circle, "cannot be read"),
        ("cut", cut, "ended the connection"),
        ("million differences", million_differences, "more bytes than the limit"),
        ("endless difference", endless_difference, "is outside the zone"),
        ("endless", endless, "more bytes than the limit"),
        ("drip", drip, "longer than the limit"),
    ];
    for (what, script, fault) in scripts {
        if what == "drip" {
            server.reconfigure("incoming-max-time = \"600s\"\n", too_slow);
            server.reload();
        }
        primary.becomes(2, script);
        // The previous script had another fault.
        let asked = primary.open[2].load(Ordering::SeqCst);
        server.ctl_json(&["zone", "refresh", "example"]);
        eventually(what, &server, || {
            primary.open[2].load(Ordering::SeqCst) > asked
                && primary.open[0].load(Ordering::SeqCst) == 0
                && known()["transfers"]["fault"]["fault"].as_str().is_some_and(|said| said.contains(fault))
        });
        assert!(answers(1), "{what}: {}", server.log());
        assert_eq!((&known()["serial"], &known()["state"]), (&1.into(), &"ok".into()), "{what}");
    }
    // The zone is tiny, and a transfer takes no more than its limit. Threads that come and go each leave a
    // huge page or two in the allocator, up to ten in total.
    let grown = peak(&server).saturating_sub(before);
    assert!(grown < (64 + 16 + 20) << 20, "{} MiB", grown >> 20);
    primary.becomes(9, last);
    server.ctl_json(&["zone", "refresh", "example"]);
    eventually("the same primary sends a zone", &server, || answers(9));
}

#[test]
fn a_thousand_zones_of_a_primary_that_says_nothing_hold_up_no_others() {
    let (silent, good) = (Primary::start(2, silent), Primary::start(1, first));
    let mut zones: String = (0..1000).map(|n| zone(&format!("silent-{n}"), &silent)).collect();
    zones += &zone("example", &good);
    let limits = "[transfers]\nincoming = 500\nincoming-per-primary = 4\nincoming-idle-timeout = \"1s\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_at(free_address(), folder, "", &(zones + limits));
    eventually("the other zone is taken", &server, || {
        server.query(&["h.example", "A"]).contains("192.0.2.1")
    });
    let [_, most, all] = &*silent.open;
    eventually("one zone after the other is given up", &server, || all.load(Ordering::SeqCst) > 12);
    good.becomes(9, last);
    server.ctl_json(&["zone", "refresh", "example"]);
    eventually("its next version, too", &server, || server.query(&["h.example", "A"]).contains("192.0.2.9"));
    // Four at a time; the primary may not have noticed the end of some yet.
    assert!(most.load(Ordering::SeqCst) < 40, "{most:?}");
}

#[test]
fn a_primary_that_announced_a_newer_version_and_sent_an_older_one_was_believed() {
    // For differences, and for the whole zone.
    for keys in ["", "ixfr = false\n"] {
        let primary = Primary::start(1, first);
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::start_at(free_address(), folder, "", &(zone("example", &primary) + keys));
        let answers = |last: u8| server.query(&["h.example", "A"]).contains(&format!("192.0.2.{last}"));
        eventually("it is taken", &server, || answers(1));
        primary.becomes(2, older);
        for _ in 0..3 {
            let asked = primary.open[2].load(Ordering::SeqCst);
            server.ctl_json(&["zone", "refresh", "example"]);
            eventually("the older version is refused", &server, || {
                let known = server.ctl_json(&["zone", "status", "example"]);
                let fault = known["transfers"]["fault"]["fault"].as_str().unwrap_or_default().to_owned();
                primary.open[2].load(Ordering::SeqCst) > asked
                    && primary.open[0].load(Ordering::SeqCst) == 0
                    && fault.contains("it sends serial 0, older than ours, 1")
                    && known["transfers"]["next_refresh"].as_u64().is_some()
            });
            assert!(answers(1), "{}", server.log());
        }
        assert_eq!(server.log().matches("older than ours").count(), 1, "{}", server.log());
        // The operator may want it nevertheless.
        server.ctl_json(&["zone", "retransfer", "example"]);
        eventually("the older version is taken by order", &server, || answers(0));
    }
}

#[test]
fn several_endless_transfers_took_the_memory_of_the_machine_together() {
    let (endless, good) = (Primary::start(2, endless), Primary::start(1, first));
    let mut zones: String = (0..4).map(|n| zone(&format!("endless-{n}"), &endless)).collect();
    zones += &zone("example", &good);
    // No limit for a single one.
    let limits = "[transfers]\nincoming-memory = \"8MiB\"\nincoming-max-size = \"1TiB\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_at(free_address(), folder, "", &(zones + limits));
    eventually("another zone is taken beside them", &server, || {
        server.query(&["h.example", "A"]).contains("192.0.2.1")
    });
    for n in 0..4 {
        eventually("each is given up", &server, || {
            let known = server.ctl_json(&["zone", "status", &format!("endless-{n}")]);
            let fault = known["transfers"]["fault"]["fault"].as_str().unwrap_or_default().to_owned();
            fault.contains("all transfers together take more memory")
        });
    }
    let grown = peak(&server);
    assert!(grown < 400 << 20, "{} MiB", grown >> 20);
}

#[test]
fn making_a_zone_of_a_transfer_took_as_much_memory_as_it_liked() {
    // For differences, and for the whole zone.
    for keys in ["", "ixfr = false\n"] {
        let primary = Primary::start(1, first);
        // Enough for ten times the data.
        let limits = "[transfers]\nincoming-memory = \"64MiB\"\nincoming-max-size = \"1TiB\"\n";
        let folder = tempfile::tempdir().expect("a folder");
        let server =
            Server::start_at(free_address(), folder, "", &(zone("example", &primary) + keys + limits));
        let answers = |last: u8| server.query(&["h.example", "A"]).contains(&format!("192.0.2.{last}"));
        eventually("it is taken", &server, || answers(1));
        primary.becomes(2, deep);
        server.ctl_json(&["zone", "refresh", "example"]);
        eventually("it is given up", &server, || {
            let known = server.ctl_json(&["zone", "status", "example"]);
            let fault = known["transfers"]["fault"]["fault"].as_str().unwrap_or_default().to_owned();
            fault.contains("all transfers together take more memory")
        });
        assert!(answers(1), "{}", server.log());
        let grown = peak(&server);
        assert!(grown < 250 << 20, "{} MiB", grown >> 20);
    }
}
