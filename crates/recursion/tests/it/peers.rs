//! The cases of `cases.rs` with Unbound, BIND and PowerDNS Recursor instead of our resolver: they forward all
//! names to one server, in a network namespace, which answers like the servers of the tree. Compares response
//! code and AD. Where the three agree with each other and not with the case, the test fails, unless
//! `peers.md` beside this file lists the query with the reason.
//!
//! ```text
//! PEERS_SCENARIO='opt-out' cargo test -p recursion --test it -- --nocapture peers
//! ```
//!
//! runs the cases whose title contains that text, and prints each peer's answers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use resolver::{Partition, QueryKey};
use testkit::decode::decode;
use testkit::keys::Validity;
use testkit::network::{self, Port, ReplyFn};
use testkit::peers::{AD, CD, DO, PeerKind, PeerMinimisation, PeerProcess, PeerRule, PeerSetup, ask_once};
use testkit::tree::{Tree, TreeReply};
use testkit::verdicts::{SCENARIO, ScenarioAnswers, compare_with_peers};
use wire::NameBuf;
use wire::message::Parser;

use crate::cases::{Case, Step, cases};
use crate::support::{Ask, ask};
use crate::validation::Server;

/// The server that all names are forwarded to.
const UPSTREAM: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 53));
/// Longest wait for a peer's reply: longer than clients wait. A missing reply counts as SERVFAIL.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn other_resolvers_answer_as_the_cases_expect() {
    let titles: Vec<String> = cases().map(|case| case.title.to_owned()).collect();
    let inside = "peers::inside_a_case_is_played_by_others";
    compare_with_peers(&titles, inside, env!("CARGO_TARGET_TMPDIR"), include_str!("peers.md"), 50);
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_case_is_played_by_others() {
    network::inside();
    let wanted = std::env::var(SCENARIO).expect("a title");
    let (number, case) =
        cases().enumerate().find(|(_, case)| case.title == wanted).expect("a case of that title");
    let tree = Arc::new(Tree::valid(validity()));
    let server: Arc<Mutex<Server>> = Arc::new(Mutex::new(|_, reply| Some(reply)));
    network::add_address(UPSTREAM);
    let at = SocketAddr::new(UPSTREAM, 53);
    let _ports: Vec<Port> =
        [false, true].map(|is_tcp| Port::open(at, is_tcp, replies(&tree, &server))).into();
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = tmp.join("cases").join(number.to_string());
    let setup = setup(case, &tree);
    let build = tmp.parent().expect("the build folder");
    let mut peers: Vec<PeerProcess> = Vec::new();
    for kind in PeerKind::ALL {
        let program = kind.program(build).expect("a program");
        peers.push(PeerProcess::start(kind, &program, &setup, &folder));
    }
    peers.iter_mut().for_each(|peer| peer.wait(&folder));
    for step in case.steps {
        match step {
            Step::Server(next) => *server.lock().expect("no panic") = *next,
            Step::After(seconds) => std::thread::sleep(Duration::from_secs(*seconds)),
            Step::Ask(question, says) => println!("{}", verdict(case, question, says)),
        }
    }
}

fn validity() -> Validity {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as u32;
    Validity { inception: now - 3600, expiration: now + 86_400 }
}

fn setup(case: &Case, tree: &Tree) -> PeerSetup {
    let ds = tree.keys(NameBuf::ROOT)[0].ds(wire::Name::ROOT);
    let digest: String = ds[4..].iter().map(|byte| format!("{byte:02X}")).collect();
    let anchor = format!("{} {} {} {digest}", u16::from_be_bytes([ds[0], ds[1]]), ds[2], ds[3]);
    let servers = vec![(String::new(), vec![UPSTREAM])];
    PeerSetup {
        rules: vec![PeerRule { domain: NameBuf::ROOT, servers, forward: true }],
        anchor: Some(anchor),
        minimisation: PeerMinimisation::Off,
        ipv6: true,
        loopback: false,
        stale: case.stale,
    }
}

/// The upstream server: a resolver that does not validate.
fn replies(tree: &Arc<Tree>, server: &Arc<Mutex<Server>>) -> Arc<ReplyFn> {
    let (tree, server) = (Arc::clone(tree), Arc::clone(server));
    Arc::new(move |query| {
        let (header, mut parser) = Parser::new(query).ok()?;
        let question = parser.question().ok()?;
        let query_key = QueryKey {
            name: question.name.to_lower(),
            qtype: question.qtype,
            qclass: question.qclass,
            dnssec_ok: true,
            checking_disabled: true,
            partition: Partition::SHARED,
        };
        let asked = question.name.to_buf();
        let honest = tree.reply(asked, question.qtype);
        let reply = server.lock().expect("no panic")(&query_key, honest)?;
        let mut message = TreeReply { name: asked, ..reply }.message();
        let rcode = message[3] & 0x0f;
        message[..2].copy_from_slice(&header.id().to_be_bytes());
        message[2] = 0x80 | u8::from(header.recursion_desired());
        message[3] = 0x80 | rcode | if header.checking_disabled() { 0x10 } else { 0 };
        let additional = u16::from_be_bytes([message[10], message[11]]) + 1;
        message[10..12].copy_from_slice(&additional.to_be_bytes());
        // OPT: 4096 bytes, DO.
        message.extend([0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 0]);
        Some((message, Duration::ZERO))
    })
}

/// Compares each peer's answer to a query with the case.
fn verdict(case: &Case, question: &str, says: &str) -> ScenarioAnswers {
    let Ask { name, qtype, dnssec_ok, checking_disabled, authentic, .. } = ask(question);
    let bits = [(dnssec_ok, DO), (checking_disabled, CD), (authentic, AD)];
    let flags = bits.into_iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum();
    let asked =
        |kind: PeerKind| shown(ask_once(kind.address(), &name, qtype, 1, flags, REPLY_TIMEOUT).as_deref());
    let theirs: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = PeerKind::ALL.map(|kind| scope.spawn(move || asked(kind))).into();
        all.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let words: Vec<&str> = says.split(' ').collect();
    let ad = if words.contains(&"ad") { " ad" } else { "" };
    let answers = std::iter::once(format!("{}{ad}", words[0])).chain(theirs).collect();
    ScenarioAnswers { scenario: case.title.to_owned(), question: question.to_owned(), answers }
}

/// The response code and AD; no reply counts as SERVFAIL.
fn shown(reply: Option<&[u8]>) -> String {
    let Some(reply) = reply else { return "SERVFAIL".into() };
    let reply = decode(reply);
    let ad = if reply.header.authentic_data() { " ad" } else { "" };
    format!("{}{ad}", reply.rcode)
}
