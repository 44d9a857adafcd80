//! The AF_XDP front over veth, compared with the sockets behind it.

use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use net::{
    BindFault, Bound, Context, Listener, ListenerConfig, Running, Totals, WorkerFaultKind, XdpAttach,
    XdpConfig, XdpCopy,
};
use transport::{Batch, Handler, LateReplies, Outcome, Transport, WorkerContext};

use socket2::{Domain, Protocol, Socket, Type};

use crate::later::{self, LateAnswers, Queues, WaitingQuery};
use crate::link::{CLIENT_LINK, Frames, SERVER_INTERFACE, SERVER_LINK, VethPair};
use crate::script::{receive, wait_until};

const V4: &str = "198.18.9.2:53";
const V6: &str = "[fd00:9::2]:53";

/// Answers a query with [`answer`], sometimes later, sometimes not at all.
struct Mirror(LateAnswers);

/// Makes mirrors.
fn mirror() -> impl Fn(&WorkerContext) -> Mirror + Send + Sync {
    let queues = Queues::default();
    move |worker_context| Mirror(queues.of(worker_context))
}

impl Handler for Mirror {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        let (queries, replies) = batch.split();
        for i in 0..queries.len() {
            let reply = answer(queries.packet(i), replies.room);
            let outcome = match reply[3] {
                3 => Outcome::Drop,
                7 => {
                    let promise = WaitingQuery::new(queries.return_address(i), &self.0);
                    std::thread::spawn(move || promise.send(&reply));
                    Outcome::Pending
                }
                _ => {
                    replies.buffer(i)[..reply.len()].copy_from_slice(&reply);
                    Outcome::Reply(reply.len())
                }
            };
            replies.set(i, outcome);
        }
    }

    fn late(&mut self, replies: &mut LateReplies<'_>) -> bool {
        later::write(&self.0, replies)
    }
}

/// The reply to a query: the same ID; its bytes decide length and content. Truncated to `room`, with TC set.
fn answer(query: &[u8], room: usize) -> Vec<u8> {
    let len = 12 + usize::from(u16::from_be_bytes([query[10], query[11]])) % 3000;
    let mut reply: Vec<u8> = query.iter().copied().cycle().take(len.min(room)).collect();
    reply[2] |= 0x80;
    if len > room {
        reply[2] |= 0x02;
    }
    reply
}

/// Bytes that look random and are the same every time.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
}

/// A query with this ID. Its reply has at most 1232 bytes.
fn query(id: u16) -> Vec<u8> {
    let mut bytes = noise(id.into());
    let len = 12 + usize::from(bytes.next().unwrap()) * 5;
    let mut q: Vec<u8> = bytes.take(len).collect();
    q[..2].copy_from_slice(&id.to_be_bytes());
    q[2] = 0;
    q[3] &= 15;
    let reply = u16::from_be_bytes([q[10], q[11]]) % 1221;
    q[10..12].copy_from_slice(&reply.to_be_bytes());
    q
}

fn answered(query: &[u8]) -> bool {
    query[3] != 3
}

fn config() -> ListenerConfig {
    let mut config = ListenerConfig { workers: 1, ..ListenerConfig::default() };
    config.udp.idle_wake = Duration::from_millis(20);
    config
}

fn front(attach: XdpAttach) -> XdpConfig {
    XdpConfig { attach, frames: 256, ..XdpConfig::new(SERVER_INTERFACE) }
}

/// The listeners of both families and, if wanted, the front.
struct Served {
    sockets: Vec<Running>,
    front: Option<Running>,
}

impl Served {
    fn new(link: &VethPair, addrs: [&str; 2], xdp: Option<XdpConfig>) -> Served {
        link.server(|| {
            let bound = addrs.map(listener);
            let front = xdp.map(|xdp| {
                let front = Listener::xdp(&[&bound[0], &bound[1]], &config(), &xdp).unwrap();
                front.serve(mirror(), &Context::default()).unwrap()
            });
            let sockets = bound.map(|b| b.serve(mirror(), &Context::default()).unwrap()).into();
            Served { sockets, front }
        })
    }

    /// Returns the counts of the sockets and the front, after both have stopped, the front first.
    fn stop(self) -> (u64, Totals) {
        let front = self.front.map_or_else(Totals::default, end);
        (self.sockets.into_iter().map(|running| end(running).queries).sum(), front)
    }
}

fn listener(addr: &str) -> Bound {
    Listener::bind(addr.parse().unwrap(), Transport::Udp, &config()).unwrap()
}

fn end(running: Running) -> Totals {
    running.stop();
    running.join().totals()
}

/// A socket in the client's namespace.
fn client(link: &VethPair, server: &str) -> UdpSocket {
    let server: SocketAddr = server.parse().unwrap();
    link.client(|| crate::script::udp_client(server))
}

/// Sends queries a few at a time and returns all replies, by ID.
fn ask(client: &UdpSocket, ids: std::ops::Range<u16>) -> Vec<Vec<u8>> {
    let queries: Vec<_> = ids.map(query).collect();
    let mut replies = Vec::new();
    for some in queries.chunks(16) {
        for q in some {
            client.send(q).unwrap();
        }
        for _ in some.iter().filter(|q| answered(q)) {
            replies.push(receive(client));
        }
    }
    replies.sort();
    replies
}

fn both_ways(mut test: impl FnMut(XdpAttach)) {
    for attach in [XdpAttach::Driver, XdpAttach::Generic] {
        test(attach);
    }
}

#[test]
fn a_front_answers_as_the_sockets_do() {
    let Some(link) = VethPair::make(1) else { return };
    let wild = ["0.0.0.0:53", "[::]:53"];
    let sockets = Served::new(&link, wild, None);
    let clients = [V4, V6].map(|addr| client(&link, addr));
    let expected = clients.each_ref().map(|c| ask(c, 0..2000));
    assert_eq!(sockets.stop().0, 4000);
    let promised: Vec<_> = (0..2000).map(query).filter(|q| answered(q)).map(|q| answer(&q, 1232)).collect();
    both_ways(|attach| {
        for addrs in [wild, [V4, V6]] {
            let served = Served::new(&link, addrs, Some(front(attach)));
            for (client, expected) in clients.iter().zip(&expected) {
                assert_eq!(&ask(client, 0..2000), expected);
                assert_eq!(expected.len(), promised.len());
                assert!(promised.iter().all(|reply| expected.binary_search(reply).is_ok()));
            }
            let (through_sockets, totals) = served.stop();
            assert_eq!((through_sockets, totals.queries, totals.xdp_frames_in), (0, 4000, 4000));
            assert_eq!(totals.replies, 2 * promised.len() as u64);
            assert_eq!(totals.xdp_frames_out + totals.late_replies, totals.replies);
            assert!(totals.late_replies > 100);
            assert_eq!((totals.xdp_bad_checksums, totals.xdp_malformed, totals.xdp_lost), (0, 0, 0));
        }
    });
}

#[test]
fn a_front_takes_headers_of_proxies_off_and_answers_the_proxies() {
    let Some(link) = VethPair::make(1) else { return };
    let header = b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c\xc0\0\x02\x07\xc0\0\x02\x35\x12\x34\0\x35";
    let clients = [V4, V6].map(|addr| client(&link, addr));
    both_ways(|attach| {
        let context = Context::default();
        let proxies = clients.each_ref().map(|client| client.local_addr().unwrap().ip());
        context.proxies.set(proxies.map(|ip| (ip, if ip.is_ipv4() { 32 } else { 128 })), 512);
        let running = link.server(|| {
            let bound = [V4, V6].map(listener);
            let front = Listener::xdp(&[&bound[0], &bound[1]], &config(), &front(attach)).unwrap();
            let [v4, v6] = bound;
            [front, v4, v6].map(|bound| bound.serve(mirror(), &context).unwrap())
        });
        for client in &clients {
            let queries: Vec<_> = (0..200).map(query).filter(|q| q.len() < 1000 && answered(q)).collect();
            for some in queries.chunks(8) {
                for q in some {
                    client.send(q).unwrap();
                    client.send(&[&header[..], q].concat()).unwrap();
                }
                let mut replies: Vec<_> = some.iter().map(|_| receive(client)).collect();
                let mut expected: Vec<_> = some.iter().map(|q| answer(q, 1232)).collect();
                replies.sort();
                expected.sort();
                assert_eq!(replies, expected);
            }
        }
        let [front, ..] = running.map(end);
        assert!(front.late_replies > 0 && front.xdp_frames_out > 0);
        assert_eq!(front.proxy_missing, front.queries);
    });
}

/// Sockets that another process opened, such as systemd, behind a front, and left for the next server.
#[test]
fn a_front_stands_before_passed_sockets_and_leaves_queries_in_them_to_the_next_server() {
    let Some(link) = VethPair::make(1) else { return };
    let passed = link.server(|| UdpSocket::bind("0.0.0.0:53").unwrap());
    let serve = || {
        link.server(|| {
            let bound = Listener::from_udp(vec![passed.try_clone().unwrap()], &config()).unwrap();
            let front = Listener::xdp(&[&bound], &config(), &front(XdpAttach::Auto)).unwrap();
            [front, bound].map(|bound| bound.serve(mirror(), &Context::default()).unwrap())
        })
    };
    let client = client(&link, V4);
    let waiting = (0..).map(query).find(|q| answered(q)).unwrap();
    let [front, sockets] = serve();
    ask(&client, 0..100);
    assert!(link.attached());
    assert_eq!((end(front).queries, end(sockets).queries), (100, 0));
    assert!(!link.attached());
    // No server runs, but the socket is still open.
    client.send(&waiting).unwrap();
    let [front, sockets] = serve();
    assert_eq!(receive(&client), answer(&waiting, 1232));
    ask(&client, 0..100);
    assert_eq!((end(front).queries, end(sockets).queries), (100, 1));
}

#[test]
fn several_queues_have_a_worker_each() {
    let Some(link) = VethPair::make(3) else { return };
    for (asked, got) in [(None, 3), (Some(2), 2)] {
        let served =
            Served::new(&link, [V4, V6], Some(XdpConfig { queues: asked, ..front(XdpAttach::Auto) }));
        let running = served.front.as_ref().unwrap();
        assert_eq!(running.stats().per_worker().count(), got);
        let mut asked = 0;
        // Clients with different ports use different queues.
        for _ in 0..24 {
            let client = client(&link, V4);
            asked += ask(&client, 0..8).len() as u64;
        }
        let busy = running.stats().per_worker().filter(|totals| totals.queries > 0).count();
        assert_eq!(busy, got);
        let (through_sockets, totals) = served.stop();
        assert!((through_sockets > 0) == (got < 3), "{through_sockets}");
        assert_eq!(
            totals.queries + through_sockets,
            asked + 24 * (0..8).filter(|&id| !answered(&query(id))).count() as u64
        );
    }
}

/// The sum of RFC 1071, word by word.
fn checksum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) * 256 + w.get(1).copied().map_or(0, u32::from));
    words.fold(0_u32, |total, word| (total + word) % 65_535) as u16
}

/// A query as a frame from the client, with a right UDP checksum.
fn frame(server: &str, tag: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let v4 = server == V4;
    let mut frame = [SERVER_LINK, CLIENT_LINK].concat();
    if let Some(tag) = tag {
        frame.extend([0x81, 0]);
        frame.extend(tag.to_be_bytes());
    }
    let len = (payload.len() + 8) as u16;
    let address = |text: &str| match text.parse().unwrap() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (from, to) = if v4 { ("198.18.9.1", "198.18.9.2") } else { ("fd00:9::1", "fd00:9::2") };
    let ends = [address(from), address(to)].concat();
    let mut udp = [4000, 53, len, 0].map(u16::to_be_bytes).concat();
    udp.extend(payload);
    let sum = !checksum(&[&ends, &[0, 17], &len.to_be_bytes(), &udp]);
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    let mut ip;
    if v4 {
        frame.extend([8, 0]);
        ip = [&[0x45, 0][..], &(len + 20).to_be_bytes(), &[0, 1, 0, 0, 30, 17, 0, 0], &ends].concat();
        let sum = !checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame.extend([0x86, 0xdd]);
        ip = [&[0x60, 0, 0, 0][..], &len.to_be_bytes(), &[17, 30], &ends].concat();
    }
    [frame, ip, udp].concat()
}

/// Checks the headers of a reply to [`frame`] and returns its payload.
fn opened(server: &str, tag: Option<u16>, frame: &[u8]) -> Vec<u8> {
    assert_eq!(frame[..12], [CLIENT_LINK, SERVER_LINK].concat());
    let mut ip = 14;
    if let Some(tag) = tag {
        assert_eq!(frame[12..16], [[0x81, 0], tag.to_be_bytes()].concat());
        ip = 18;
    }
    let (udp, ends, ttl) = if server == V4 {
        assert_eq!((&frame[ip - 2..ip], frame[ip]), (&[8, 0][..], 0x45));
        assert_eq!(usize::from(u16::from_be_bytes([frame[ip + 2], frame[ip + 3]])), frame.len() - ip);
        assert_eq!(checksum(&[&frame[ip..ip + 20]]), 0);
        (ip + 20, &frame[ip + 12..ip + 20], frame[ip + 8])
    } else {
        assert_eq!((&frame[ip - 2..ip], frame[ip]), (&[0x86, 0xdd][..], 0x60));
        assert_eq!(usize::from(u16::from_be_bytes([frame[ip + 4], frame[ip + 5]])), frame.len() - ip - 40);
        (ip + 40, &frame[ip + 8..ip + 40], frame[ip + 7])
    };
    assert_eq!(ttl, 64);
    let datagram = &frame[udp..];
    assert_eq!(datagram[..4], [0, 53, 0x0f, 0xa0]);
    assert_eq!(usize::from(u16::from_be_bytes([datagram[4], datagram[5]])), datagram.len());
    assert_ne!(datagram[6..8], [0, 0]);
    // 0 and 65,535 are equal in this arithmetic, and the sum of a datagram with a right checksum.
    assert_eq!(checksum(&[ends, &[0, 17], &datagram[4..6], datagram]), 0);
    datagram[8..].to_vec()
}

#[test]
fn frames_are_right_with_and_without_a_tag() {
    let Some(link) = VethPair::make(1) else { return };
    both_ways(|attach| {
        let served = Served::new(&link, [V4, V6], Some(front(attach)));
        let frames = link.client(Frames::open);
        // Not those that are answered through the kernel, which has no VLANs here.
        let at_once = |q: &Vec<u8>| answered(q) && q[3] != 7;
        let queries: Vec<_> = (0..400).map(query).filter(at_once).collect();
        for q in &queries {
            for server in [V4, V6] {
                for tag in [None, Some(0x6123)] {
                    frames.send(&frame(server, tag, q));
                    let reply = frames.receive().expect("a reply");
                    assert_eq!(opened(server, tag, &reply), answer(q, 1232));
                }
            }
        }
        let (through_sockets, totals) = served.stop();
        assert_eq!((through_sockets, totals.replies), (0, 4 * queries.len() as u64));
    });
}

#[test]
fn wrong_checksums_are_dropped_and_counted() {
    let Some(link) = VethPair::make(1) else { return };
    both_ways(|attach| {
        let served = Served::new(&link, [V4, V6], Some(front(attach)));
        let frames = link.client(Frames::open);
        let q = (0..).map(query).find(|q| answered(q) && q[3] != 7).unwrap();
        let damaged = |server: &str, at: usize| {
            let mut frame = frame(server, None, &q);
            frame[at] ^= 0x10;
            frame
        };
        // In the header, the datagram, the payload; over IPv6 in the datagram and the payload.
        for frame in [damaged(V4, 24), damaged(V4, 40), damaged(V4, 50), damaged(V6, 60), damaged(V6, 70)] {
            frames.send(&frame);
        }
        // No checksum is right over IPv4 and wrong over IPv6.
        let mut none = frame(V6, None, &q);
        none[60..62].fill(0);
        frames.send(&none);
        let mut none = frame(V4, None, &q);
        none[40..42].fill(0);
        frames.send(&none);
        // The first reply is to the last frame.
        assert_eq!(opened(V4, None, &frames.receive().unwrap()), answer(&q, 1232));
        let (through_sockets, totals) = served.stop();
        assert_eq!((through_sockets, totals.queries, totals.xdp_bad_checksums), (0, 1, 6));
    });
}

#[test]
fn all_else_goes_to_the_kernel() {
    let Some(link) = VethPair::make(1) else { return };
    both_ways(|attach| {
        let served = Served::new(&link, [V4, V6], Some(front(attach)));
        // In the first round neither side knows the other's link address, so this also tests ARP and ND.
        let clients = [V4, V6].map(|addr| client(&link, addr));
        let mut large = query(1);
        (large[3], large[10], large[11]) = (0, 0, 9);
        large.resize(3000, 5);
        for client in &clients {
            // In fragments.
            client.send(&large).unwrap();
            assert_eq!(receive(client), answer(&large, 4096));
        }
        // With an option in the header, a no-operation.
        let options = [1_u8; 4];
        // SAFETY: four live bytes.
        let rc = unsafe {
            use std::os::fd::AsRawFd;
            libc::setsockopt(
                clients[0].as_raw_fd(),
                libc::IPPROTO_IP,
                libc::IP_OPTIONS,
                options.as_ptr().cast(),
                4,
            )
        };
        assert_eq!(rc, 0);
        let mut small = large.clone();
        small.truncate(40);
        clients[0].send(&small).unwrap();
        assert_eq!(receive(&clients[0]), answer(&small, 4096));
        for addr in ["198.18.9.2:5353", "[fd00:9::2]:5353"] {
            // Another port, and TCP on ours.
            let other = link.server(|| UdpSocket::bind(addr).unwrap());
            let sender = client(&link, addr);
            sender.send(&small).unwrap();
            assert_eq!(receive(&other), small);
            let ours = addr.replace("5353", "53");
            let listener = link.server(|| TcpListener::bind(&ours).unwrap());
            let stream = link.client(|| {
                TcpStream::connect_timeout(&ours.parse().unwrap(), Duration::from_secs(5)).unwrap()
            });
            assert_eq!(listener.accept().unwrap().1, stream.local_addr().unwrap());
        }
        // A header between that of IPv6 and the datagram.
        let mut extended = frame(V6, None, &small);
        let next = std::mem::replace(&mut extended[20], 60);
        let padding = [next, 0, 1, 4, 0, 0, 0, 0];
        extended.splice(54..54, padding);
        let len = u16::from_be_bytes([extended[18], extended[19]]) + 8;
        extended[18..20].copy_from_slice(&len.to_be_bytes());
        let frames = link.client(Frames::open);
        frames.send(&extended);
        let reply = frames.receive().expect("a reply of the sockets");
        // The query came from no socket but from a raw frame, so no kernel code has checked the reply.
        assert_eq!(reply[62..], answer(&small, 4096));
        for addr in [V4, V6] {
            link.client(|| ping(addr.parse::<SocketAddr>().unwrap().ip()));
        }
        let (through_sockets, totals) = served.stop();
        assert_eq!((through_sockets, totals.queries), (4, 0));
        // Fragments, the options, the other ports, at least three frames of each connection, the header, two
        // pings.
        assert!(totals.xdp_passed >= 4 + 1 + 2 + 6 + 1 + 2, "{}", totals.xdp_passed);
    });
}

/// Sends an echo request and waits for the reply.
fn ping(there: IpAddr) {
    let mut echo = [[0_u8; 8], *b"pingpong"].concat();
    echo[4..6].copy_from_slice(&[0x12, 0x34]);
    let (domain, protocol, wanted) = if there.is_ipv4() {
        echo[0] = 8;
        let sum = !checksum(&[&echo]);
        echo[2..4].copy_from_slice(&sum.to_be_bytes());
        (Domain::IPV4, Protocol::ICMPV4, 0)
    } else {
        // The kernel fills in the checksum.
        echo[0] = 128;
        (Domain::IPV6, Protocol::ICMPV6, 129)
    };
    let mut socket = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
    socket.connect(&SocketAddr::new(there, 0).into()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.send(&echo).unwrap();
    let mut buffer = [0; 256];
    loop {
        let n = socket.read(&mut buffer).expect("an echo");
        // Over IPv4 the packet's header is included.
        let message = if there.is_ipv4() { &buffer[20..n] } else { &buffer[..n] };
        if message[0] == wanted && message[4..] == echo[4..] {
            return;
        }
    }
}

#[test]
fn replies_keep_to_what_a_packet_holds() {
    let Some(link) = VethPair::make(1) else { return };
    let mut q = vec![0; 40];
    q[10..12].copy_from_slice(&1600_u16.to_be_bytes());
    for (addrs, server, room) in [(&[V4][..], V4, 1472), (&[V4, V6], V4, 1232), (&[V6], V6, 1232)] {
        let front = link.server(|| {
            let bound: Vec<_> = addrs.iter().map(|addr| listener(addr)).collect();
            let bound: Vec<_> = bound.iter().collect();
            let front = Listener::xdp(&bound, &config(), &front(XdpAttach::Auto)).unwrap();
            front.serve(mirror(), &Context::default()).unwrap()
        });
        let client = client(&link, server);
        client.send(&q).unwrap();
        let reply = receive(&client);
        assert_eq!((reply.len(), reply[2]), (room, 0x82));
        assert_eq!(end(front).replies, 1);
    }
}

#[test]
fn larger_packets_have_larger_frames() {
    let Some(link) = VethPair::make(1) else { return };
    link.set_mtu(2600);
    both_ways(|attach| {
        let front = link.server(|| {
            let bound = listener(V4);
            let front = Listener::xdp(&[&bound], &config(), &front(attach)).unwrap();
            front.serve(mirror(), &Context::default()).unwrap()
        });
        let client = client(&link, V4);
        for (wanted, got) in [(1900_u16, 1912), (2900, 2572)] {
            let mut q = vec![9; 2500];
            q[..4].fill(0);
            q[10..12].copy_from_slice(&wanted.to_be_bytes());
            client.send(&q).unwrap();
            assert_eq!(receive(&client), answer(&q, got));
        }
        assert_eq!(end(front).replies, 2);
    });
}

#[test]
fn a_front_comes_and_goes() {
    let Some(link) = VethPair::make(1) else { return };
    let served = Served::new(&link, [V4, V6], None);
    let client = client(&link, V4);
    link.server(|| {
        let mut shared = config();
        shared.share_port = true;
        let bound = Listener::bind("198.18.9.2:54".parse().unwrap(), Transport::Udp, &shared).unwrap();
        for attach in [XdpAttach::Driver, XdpAttach::Generic, XdpAttach::Auto] {
            let open = || Listener::xdp(&[&bound], &config(), &front(attach));
            let first = open().unwrap();
            assert!(link.attached());
            assert_eq!(first.xdp_mode().unwrap().driver, attach != XdpAttach::Generic);
            let error = open().err().unwrap();
            assert_eq!(error.fault, BindFault::XdpBusy, "{error}");
            // Other listeners are unaffected.
            assert_eq!(ask(&client, 0..16).len(), (0..16).map(query).filter(|q| answered(q)).count());
            // One front that is never served, and one that is.
            drop(first);
            assert!(!link.attached());
            let running = open().unwrap().serve(mirror(), &Context::default()).unwrap();
            assert!(link.attached());
            end(running);
            assert!(!link.attached());
        }
    });
    assert_eq!(served.stop().0, 48);
}

#[test]
fn queries_that_wait_are_answered_before_the_end() {
    let Some(link) = VethPair::make(1) else { return };
    let (bound, front) = link.server(|| {
        let bound = listener(V4);
        let mut config = config();
        config.udp.batch = 16;
        let front = Listener::xdp(&[&bound], &config, &front(XdpAttach::Auto)).unwrap();
        (bound, front)
    });
    let client = client(&link, V4);
    let queries: Vec<_> = (0..60).map(query).filter(|q| answered(q)).collect();
    for q in &queries {
        client.send(q).unwrap();
    }
    // A later datagram that comes through the kernel shows that they have arrived.
    let other = link.server(|| UdpSocket::bind("198.18.9.2:5353").unwrap());
    other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client.send_to(&[1], "198.18.9.2:5353").unwrap();
    assert_eq!(receive(&other), [1]);
    let totals = end(front.serve(mirror(), &Context::default()).unwrap());
    assert_eq!(totals.replies, queries.len() as u64);
    let mut replies: Vec<_> = queries.iter().map(|_| receive(&client)).collect();
    replies.sort();
    assert_eq!(replies, queries.iter().map(|q| answer(q, 1472)).collect::<Vec<_>>());
    drop(bound);
}

#[test]
fn an_interface_that_vanishes_ends_its_front() {
    let Some(link) = VethPair::make(1) else { return };
    let faults = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&faults);
    let context = Context::default().on_fault(move |fault| {
        assert!(matches!(fault.kind, WorkerFaultKind::Xdp(_)));
        seen.lock().unwrap().push(fault.to_string());
    });
    let front = link.server(|| {
        let bound = listener("0.0.0.0:53");
        Listener::xdp(&[&bound], &config(), &front(XdpAttach::Auto))
            .unwrap()
            .serve(mirror(), &context)
            .unwrap()
    });
    link.cut();
    wait_until("the end of the front", || front.is_finished());
    assert_eq!(faults.lock().unwrap().len(), 1);
    end(front);
}

#[test]
fn what_is_missing_is_said() {
    let Some(link) = VethPair::make(1) else { return };
    link.server(|| {
        let bound = listener("0.0.0.0:53");
        let open = |xdp: XdpConfig| Listener::xdp(&[&bound], &config(), &xdp).err().unwrap();
        for name in ["no-such-one", "lo", ""] {
            let error = open(XdpConfig::new(name));
            let expected = if name == "lo" { BindFault::XdpUnsupported } else { BindFault::NoSuchInterface };
            assert_eq!(error.fault, expected, "{error}");
        }
        let error = open(XdpConfig { copy: XdpCopy::ZeroCopy, ..front(XdpAttach::Auto) });
        assert_eq!(error.fault, BindFault::XdpUnsupported, "{error}");
        assert!(!link.attached());
        let tcp = Listener::bind("0.0.0.0:53".parse().unwrap(), Transport::Tcp, &config()).unwrap();
        for none in [&[][..], &[&tcp]] {
            let error = Listener::xdp(none, &config(), &front(XdpAttach::Auto)).err().unwrap();
            assert_eq!(error.fault, BindFault::Sockets);
        }
        let local = listener("127.0.0.1:54");
        let error = Listener::xdp(&[&local], &config(), &front(XdpAttach::Auto)).err().unwrap();
        assert_eq!(error.fault, BindFault::NoSuchAddress);
        give_up_root();
        let error = open(front(XdpAttach::Auto));
        assert_eq!(error.fault, BindFault::XdpDenied);
        let text = error.to_string();
        assert!(
            text.starts_with("cannot listen on udp 0.0.0.0:53: AF_XDP needs root, or CAP_NET_ADMIN"),
            "{text}"
        );
    });
}

/// Drops root privileges, of this thread and of those it starts.
fn give_up_root() {
    // SAFETY: no pointers; the bare system call changes this thread alone.
    let rc = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
    assert_eq!(rc, 0);
}

#[test]
fn without_rights_the_sockets_answer() {
    let Some(link) = VethPair::make(1) else { return };
    let running = link.server(|| {
        give_up_root();
        // A port that itself needs no privileges.
        let bound = listener("198.18.9.2:5300");
        let error = Listener::xdp(&[&bound], &config(), &front(XdpAttach::Auto)).err().unwrap();
        assert_eq!(error.fault, BindFault::XdpDenied, "{error}");
        bound.serve(mirror(), &Context::default()).unwrap()
    });
    let client = client(&link, "198.18.9.2:5300");
    assert_eq!(ask(&client, 0..64).len(), (0..64).map(query).filter(|q| answered(q)).count());
    assert_eq!(end(running).queries, 64);
}

#[test]
fn once_open_a_front_needs_no_rights() {
    let Some(link) = VethPair::make(2) else { return };
    let (running, sockets) = link.server(|| {
        let bound = listener(V4);
        let front = Listener::xdp(&[&bound], &config(), &front(XdpAttach::Auto)).unwrap();
        give_up_root();
        let serve = |bound: Bound| bound.serve(mirror(), &Context::default()).unwrap();
        (serve(front), serve(bound))
    });
    // Clients with different ports use both queues.
    let replies: usize = (0..16).map(|_| ask(&client(&link, V4), 0..16).len()).sum();
    assert_eq!(replies, 16 * (0..16).map(query).filter(|q| answered(q)).count());
    assert!(running.stats().per_worker().all(|totals| totals.queries > 0));
    assert_eq!(end(running).queries, 256);
    assert!(!link.attached());
    assert_eq!(end(sockets).queries, 0);
}

#[test]
fn a_killed_process_leaves_nothing_attached() {
    let Some(link) = VethPair::make(1) else { return };
    let client = client(&link, V4);
    let expected = (0..32).map(query).filter(|q| answered(q)).count();
    for attach in ["driver", "generic"] {
        let mut child = link.server(|| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "--nocapture", "xdp::serves_until_it_is_killed"])
                .env("NET_TEST_ATTACH", attach)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("ready")), "the child served");
        assert!(link.attached());
        assert_eq!(ask(&client, 0..32).len(), expected);
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("the program to go", || !link.attached());
        // Nothing blocks the next one.
        let served = Served::new(&link, [V4, V6], Some(front(XdpAttach::Auto)));
        assert_eq!(ask(&client, 0..32).len(), expected);
        let (through_sockets, totals) = served.stop();
        assert_eq!((through_sockets, totals.queries), (0, 32));
    }
}

/// The process that [`a_killed_process_leaves_nothing_attached`] kills. It also ends when its standard input
/// does.
#[test]
#[ignore = "a part of another test, which runs it"]
fn serves_until_it_is_killed() {
    let attach = match std::env::var("NET_TEST_ATTACH").as_deref() {
        Ok("driver") => XdpAttach::Driver,
        Ok("generic") => XdpAttach::Generic,
        _ => return,
    };
    let bound = listener(V4);
    let front = Listener::xdp(&[&bound], &config(), &front(attach)).unwrap();
    let running = [front, bound].map(|b| b.serve(mirror(), &Context::default()).unwrap());
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
    for one in running {
        end(one);
    }
}

#[test]
fn tags_that_nobody_would_see_are_no_ground_for_a_front() {
    let Some(link) = VethPair::make(1) else { return };
    if let Err(reason) = link.add_vlan(7) {
        // On a kernel without VLANs, there is nothing that a front could miss.
        if !reason.contains("Unknown device type") {
            testkit::left_out(&format!("VLAN interfaces cannot be had here: {}", reason.trim()));
        }
        return;
    }
    link.server(|| {
        let bound = listener("0.0.0.0:53");
        let error = Listener::xdp(&[&bound], &config(), &front(XdpAttach::Auto)).err().unwrap();
        assert_eq!(error.fault, BindFault::XdpTags, "{error}");
        assert!(error.to_string().contains("ethtool -K xdp-s rxvlan off"), "{error}");
        let running = bound.serve(mirror(), &Context::default()).unwrap();
        let client = client(&link, "198.18.7.2:53");
        assert_eq!(ask(&client, 0..16).len(), (0..16).map(query).filter(|q| answered(q)).count());
        end(running);
    });
}
