//! The resolver driven by `net` with real sockets: UDP, and TCP after truncation.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use net::{Outgoing, OutgoingConfig};
use resolver::{
    ChaCha, ClientPrefix, ForwardConfig, ForwardRule, LookupOutcome, LookupRequest, LookupSink, Partition,
    QueryKey, Resolver, ResolverRequest, Upstream,
};
use wire::message::Header;
use wire::{Class, NameBuf, Rcode, Type};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

struct Channel(Sender<(u32, LookupOutcome)>);

impl LookupSink for Channel {
    type Waiter = u32;
    fn ended(&mut self, _: &QueryKey, _: &LookupOutcome, _: Instant) {}
    fn settle(&mut self, waiter: u32, outcome: LookupOutcome, _: Instant) {
        let _ = self.0.send((waiter, outcome));
    }
}

/// NXDOMAIN with the question.
fn reply(query: &[u8], truncated: bool) -> Vec<u8> {
    let mut header = Header::of(query).expect("a header").reply();
    header.set_counts(Header::of(query).expect("a header").counts());
    header.set_truncated(truncated);
    header.set_rcode(Rcode::NXDOMAIN);
    [header.as_bytes(), &query[12..]].concat()
}

/// A server that truncates by UDP and answers over TCP; returns its address.
fn server() -> SocketAddr {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = tcp.local_addr().expect("bound");
    let udp = UdpSocket::bind(at).expect("the port is free for UDP as well");
    std::thread::spawn(move || {
        let mut buf = [0; 512];
        while let Ok((len, from)) = udp.recv_from(&mut buf) {
            let _ = udp.send_to(&reply(&buf[..len], true), from);
        }
    });
    std::thread::spawn(move || {
        let (mut stream, _) = tcp.accept().expect("a connection");
        loop {
            let mut len = [0; 2];
            if stream.read_exact(&mut len).is_err() {
                return;
            }
            let mut query = vec![0; u16::from_be_bytes(len).into()];
            stream.read_exact(&mut query).expect("a whole message");
            let reply = reply(&query, false);
            let len = (reply.len() as u16).to_be_bytes();
            stream.write_all(&[&len, &reply[..]].concat()).expect("written");
        }
    });
    at
}

#[test]
fn questions_go_through_real_sockets_and_share_a_connection() {
    let (send, outcomes) = channel();
    let rule = ForwardRule::new(NameBuf::ROOT, vec![Upstream::new(server())]);
    let config = ForwardConfig { rules: vec![rule], ..Default::default() };
    let core = Resolver::new(config, Channel(send), ChaCha::new([5; 32]));
    let stats = core.stats();
    let outgoing = Outgoing::start("resolver", core, &OutgoingConfig::default()).expect("a thread");
    for waiter in 0..5 {
        let name: NameBuf = format!("n{waiter}.example.").parse().expect("a name");
        let query_key = QueryKey {
            name: name.as_name().to_lower(),
            qtype: Type::A,
            qclass: Class::IN,
            dnssec_ok: true,
            checking_disabled: false,
            partition: Partition::SHARED,
        };
        let client = ClientPrefix::of([127, 0, 0, 1].into());
        let request = LookupRequest::new(query_key, client, waiter);
        assert!(outgoing.request(ResolverRequest::Lookup(request)));
        // The server accepts only one connection.
        let (settled, outcome) = outcomes.recv_timeout(TEST_TIMEOUT).expect("an outcome");
        let LookupOutcome::Answered(answer) = outcome else { panic!("{outcome:?}") };
        assert_eq!((settled, answer.rcode), (waiter, Rcode::NXDOMAIN));
    }
    assert_eq!(stats.answered.get(), 5);
    let upstream = &stats.upstreams()[0];
    assert_eq!((upstream.udp.get(), upstream.tcp.get()), (5, 5));
    assert!(upstream.smoothed_rtt().is_some() && !upstream.is_failing());
    assert_eq!(outgoing.counts().opened.get(), 6);
    outgoing.stop();
}
