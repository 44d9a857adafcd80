//! Mutants judged by Unbound and BIND, too: a server on loopback answers for the tree's zones, and responds
//! to one question with a mutant. Unbound and BIND's `delv` query it, and their verdicts are compared with
//! ours.
//!
//! Usually every fortieth mutant is judged; `MUTANTS_STEP` and long tests (`NOMEN_LONG_TESTS`) judge more:
//!
//! ```text
//! MUTANTS_STEP=1 cargo test -p validator --test it -- --nocapture peers
//! ```
//!
//! Prints a line for each kind of mutant, and one for each triple of verdicts. All differences are in
//! `verdicts.txt` in the folder that it prints; `peers.md` beside this file explains them, and a triple
//! missing there is a failure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use testkit::answers::Line;
use testkit::keys::Validity;
use testkit::name;
use testkit::tree::{Tree, TreeReply, covered};
use validator::{
    Progress, Response, Security, TrustTable, Validation, ValidationBudget, ValidationLimits,
    ValidationSettings, Validator,
};
use wire::message::{Header, Parser};
use wire::{NameBuf, Rcode, Type, UnixTime};

use crate::mutants::without_line;
use crate::plain::QUESTIONS;

const ZONES: [&str; 4] = ["nsec.test.", "hash.test.", "opt.test.", "child.nsec.test."];

/// A validator's verdict on an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Secure,
    Insecure,
    Bogus,
}

/// A mutant: how it was made, and the reply.
struct Mutant {
    family: &'static str,
    detail: String,
    reply: TreeReply,
}

fn now() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as u32
}

/// Applies `change` to each line in turn, unless it changes nothing there.
fn each_line(honest: &TreeReply, change: impl Fn(&mut Line)) -> Vec<(String, TreeReply)> {
    let lines = honest.answer.len() + honest.authority.len();
    let changed = |at: usize| {
        let mut mutant = honest.clone();
        let line = mutant.lines_mut().nth(at)?;
        let (before, what) = (line.rdata.clone(), format!("{} {}", line.owner, line.rtype));
        change(line);
        (line.rdata != before).then_some((what, mutant))
    };
    (0..lines).filter_map(changed).collect()
}

/// A change of an RRSIG's RDATA, with its description.
type Change = (&'static str, fn(&mut Vec<u8>));

const OF_SIGNATURES: [Change; 8] = [
    ("another type covered", |rdata| rdata[1] ^= 1),
    ("another algorithm", |rdata| rdata[2] = 13),
    ("one label less", |rdata| rdata[3] = rdata[3].wrapping_sub(1)),
    ("one label more", |rdata| rdata[3] += 1),
    ("another original TTL", |rdata| rdata[7] ^= 1),
    ("another expiration", |rdata| rdata[11] ^= 1),
    ("another key tag", |rdata| rdata[17] ^= 1),
    ("signed by test.", |rdata| {
        let end = 18 + wire::Name::parse(&rdata[18..]).expect("a signer").len();
        rdata.splice(18..end, name("test.").as_name().as_wire().iter().copied());
    }),
];

/// Mutants of one honest reply; `number` selects among those of which there are too many.
fn mutants_of(tree: &Tree, honest: &TreeReply, zone: &str, number: usize) -> Vec<Mutant> {
    let mut all = Vec::new();
    let mut add = |family, detail: String, reply| all.push(Mutant { family, detail, reply });
    for at in 0..honest.answer.len() + honest.authority.len() {
        let line = honest.answer.iter().chain(&honest.authority).nth(at).expect("a line");
        add("a line left out", format!("{} {}", line.owner, line.rtype), without_line(honest, at));
    }
    for rtype in [Type::NSEC, Type::NSEC3, Type::SOA, Type::RRSIG] {
        let gone = |line: &Line| line.rtype == rtype;
        if honest.answer.iter().chain(&honest.authority).any(gone) {
            add("a type left out", rtype.to_string(), honest.clone().without(gone));
        }
    }
    for (what, mutant) in each_line(honest, |line| {
        let at = (line.rdata.len() * (number % 7)) / 7;
        line.rdata[at] ^= 1 << (at % 8);
    }) {
        add("a byte changed", what, mutant);
    }
    let (what, change) = OF_SIGNATURES[number % OF_SIGNATURES.len()];
    for (line, mutant) in each_line(honest, |line| {
        if line.rtype == Type::RRSIG {
            change(&mut line.rdata);
        }
    }) {
        add("a signature's field changed", format!("{line}: {what}"), mutant);
    }
    let rcode = if honest.rcode == Rcode::NOERROR { Rcode::NXDOMAIN } else { Rcode::NOERROR };
    add("another response code", format!("{rcode}"), TreeReply { rcode, ..honest.clone() });
    let bare = TreeReply { rcode, authority: Vec::new(), ..honest.clone() };
    add("another response code", format!("{rcode}, without proofs"), bare);
    let owner = NameBuf::prepend(b"nothing", name(zone).as_name()).expect("a name");
    for rtype in [honest.qtype, Type::NSEC, Type::SOA] {
        let mut moved = honest.clone();
        let of = |line: &&mut Line| covered(line).unwrap_or(line.rtype) == rtype;
        moved.lines_mut().filter(of).for_each(|line| line.owner = owner);
        if moved.answer != honest.answer || moved.authority != honest.authority {
            add("a set moved", format!("{rtype} to {owner}"), moved);
        }
    }
    for step in [1, 5, 11] {
        let (other, qtype) = QUESTIONS[(number + step) % QUESTIONS.len()];
        let other = tree.reply(name(&format!("{other}.{zone}")), qtype);
        let whole = TreeReply { name: honest.name, qtype: honest.qtype, ..other.clone() };
        add("another question's answer", format!("{} {qtype}", other.name), whole.clone());
        let proof = TreeReply { answer: Vec::new(), ..whole };
        add("another question's proof", format!("{} {qtype}", other.name), proof);
    }
    all
}

/// Our verdict.
fn ours(tree: &Tree, table: &TrustTable, reply: &TreeReply) -> Verdict {
    let Ok(response) = Response::read(&reply.message(), reply.rcode) else { return Verdict::Bogus };
    let (settings, anchors) = (ValidationSettings::default(), tree.anchors());
    let by = Validation { settings: &settings, anchors: &anchors, now: UnixTime::from_secs(now().into()) };
    let mut budget = ValidationBudget::new(ValidationLimits { signatures: 48, ..Default::default() });
    let mut validator = Validator::answer(response);
    loop {
        match validator.step(&by, table, &mut budget) {
            Progress::Done(validated) => {
                return match validated.security {
                    Security::Secure => Verdict::Secure,
                    Security::Bogus(_) => Verdict::Bogus,
                    Security::Insecure(_) | Security::Indeterminate => Verdict::Insecure,
                };
            }
            Progress::Need(need) => {
                let reply = tree.reply(need.name().to_buf(), need.rtype());
                validator.receive(reply.response(), &by, table);
            }
            Progress::Again(_) => validator.give_up(&by, table),
        }
    }
}

/// The server: answers like the tree, and one question with the mutant.
fn serve(socket: &UdpSocket, tree: &Tree, mutant: &Mutex<Option<TreeReply>>) {
    let mut query = [0; 4096];
    while let Ok((len, from)) = socket.recv_from(&mut query) {
        let Ok((header, mut parser)) = Parser::new(&query[..len]) else { continue };
        let Ok(question) = parser.question() else { continue };
        let (asked, qtype) = (question.name.to_buf(), question.qtype);
        let special = mutant.lock().expect("no panic").clone();
        let special = special.filter(|reply| reply.name == asked && reply.qtype == qtype);
        let reply = special.unwrap_or_else(|| tree.reply(asked, qtype));
        let mut message = TreeReply { name: asked, ..reply }.message();
        let rcode = message[3] & 0x0f;
        message[..2].copy_from_slice(&header.id().to_be_bytes());
        message[2] = 0x84 | u8::from(header.recursion_desired());
        message[3] = 0x80 | rcode | if header.checking_disabled() { 0x10 } else { 0 };
        let additional = u16::from_be_bytes([message[10], message[11]]) + 1;
        message[10..12].copy_from_slice(&additional.to_be_bytes());
        // OPT: 4096 bytes, DO.
        message.extend([0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 0]);
        let _ = socket.send_to(&message, from);
    }
}

/// A process that is killed when this is dropped.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Starts Unbound with this server as upstream; returns its own address, too.
fn unbound(tree: &Tree, server: SocketAddr) -> (Kept, SocketAddr) {
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    let own = free.expect("a free port");
    let ds = tree.keys(NameBuf::ROOT)[0].ds(wire::Name::ROOT);
    let anchor = format!(". DS {} {} {} {}", u16::from_be_bytes([ds[0], ds[1]]), ds[2], ds[3], hex(&ds[4..]));
    let config = format!(
        "server:\n interface: 127.0.0.1@{}\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n \
         directory: \"{}\"\n pidfile: \"\"\n use-syslog: no\n module-config: \"validator iterator\"\n \
         trust-anchor: \"{anchor}\"\n cache-max-ttl: 0\n cache-max-negative-ttl: 0\n val-bogus-ttl: 0\n \
         val-max-restart: 0\n do-not-query-localhost: no\n edns-buffer-size: 4096\n max-udp-size: 4096\n \
         aggressive-nsec: no\n harden-below-nxdomain: no\n local-zone: \"test.\" nodefault\n \
         do-ip6: no\n num-threads: 1\n\
         forward-zone:\n name: \".\"\n forward-addr: 127.0.0.1@{}\n forward-no-cache: yes\n\
         remote-control:\n control-enable: no\n",
        own.port(),
        folder().display(),
        server.port()
    );
    let path = folder().join("unbound.conf");
    std::fs::write(&path, config).expect("written");
    let log = std::fs::File::create(folder().join("unbound.log")).expect("a file");
    let child = Command::new("unbound").arg("-d").arg("-c").arg(&path).stderr(log).spawn().expect("unbound");
    (Kept(child), own)
}

/// The verdict of the resolver at an address; `None` if it does not respond.
fn asked(socket: &UdpSocket, at: SocketAddr, reply: &TreeReply) -> Option<Verdict> {
    let mut header = Header::query(7);
    header.set_recursion_desired(true);
    header.set_counts([1, 0, 0, 1]);
    let mut query = header.as_bytes().to_vec();
    query.extend(reply.name.as_name().as_wire());
    query.extend(reply.qtype.0.to_be_bytes());
    query.extend([0, 1, 0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 0]);
    socket.send_to(&query, at).ok()?;
    let mut answer = [0; 65_535];
    let len = socket.recv(&mut answer).ok()?;
    let header = Header::of(&answer[..len])?;
    Some(match header.rcode() {
        Rcode::NOERROR | Rcode::NXDOMAIN if header.authentic_data() => Verdict::Secure,
        Rcode::NOERROR | Rcode::NXDOMAIN => Verdict::Insecure,
        _ => Verdict::Bogus,
    })
}

/// The verdict of delv.
fn delv(anchors: &Path, server: SocketAddr, reply: &TreeReply) -> Verdict {
    let output = Command::new("delv")
        .args(["-4", "-a", &anchors.display().to_string(), "+root=.", "@127.0.0.1", "-p"])
        .args([&server.port().to_string(), &reply.name.to_string(), &reply.qtype.to_string()])
        .stdin(Stdio::null())
        .output()
        .expect("delv");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // A denial, which delv also prints as a failure.
    let denied = text.contains("resolution failed: ncache");
    if text.contains("resolution failed") && !denied {
        Verdict::Bogus
    } else if text.contains("unsigned answer") || text.contains("negative response, unsigned") {
        Verdict::Insecure
    } else if text.contains("fully validated") {
        Verdict::Secure
    } else {
        Verdict::Bogus
    }
}

/// The differing verdicts of this crate, Unbound and BIND, each explained in `peers.md`.
const EXPLAINED: [[Verdict; 3]; 13] = {
    use Verdict::{Bogus, Insecure, Secure};
    [
        [Secure, Secure, Bogus],
        [Secure, Insecure, Bogus],
        [Secure, Bogus, Secure],
        [Secure, Bogus, Bogus],
        [Insecure, Insecure, Secure],
        [Insecure, Insecure, Bogus],
        [Insecure, Bogus, Secure],
        [Insecure, Bogus, Insecure],
        [Insecure, Bogus, Bogus],
        [Bogus, Secure, Secure],
        [Bogus, Secure, Bogus],
        [Bogus, Insecure, Insecure],
        [Bogus, Insecure, Bogus],
    ]
};

/// One of this many mutants is judged.
fn step() -> usize {
    let is_long = std::env::var_os("NOMEN_LONG_TESTS").is_some_and(|long| !long.is_empty());
    let usual = if is_long { 1 } else { 40 };
    std::env::var("MUTANTS_STEP").map_or(usual, |step| step.parse().expect("a number"))
}

/// Whether the program is installed.
fn has(program: &str) -> bool {
    Command::new(program).arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[test]
fn peers_judge_the_same_mutants() {
    if !has("unbound") || !has("delv") {
        return testkit::left_out("unbound or delv is missing: no peer judges mutants of answers");
    }
    let most = step();
    let validity = Validity { inception: now() - 3600, expiration: now() + 86_400 };
    let tree = Arc::new(Tree::valid(validity));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let server = socket.local_addr().expect("an address");
    let mutant: Arc<Mutex<Option<TreeReply>>> = Arc::default();
    std::thread::spawn({
        let (tree, mutant) = (Arc::clone(&tree), Arc::clone(&mutant));
        move || serve(&socket, &tree, &mutant)
    });
    let (_unbound, resolver) = unbound(&tree, server);
    let ds = tree.keys(NameBuf::ROOT)[0].ds(wire::Name::ROOT);
    let anchors = folder().join("anchors.conf");
    let tag = u16::from_be_bytes([ds[0], ds[1]]);
    let digest = hex(&ds[4..]);
    let text = format!("trust-anchors {{ . static-ds {tag} {} {} \"{digest}\"; }};\n", ds[2], ds[3]);
    std::fs::write(&anchors, text).expect("written");
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    client.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    let honest = tree.reply(name("www.nsec.test."), Type::A);
    let end = Instant::now() + Duration::from_secs(30);
    while asked(&client, resolver, &honest) != Some(Verdict::Secure) {
        assert!(Instant::now() < end, "Unbound does not find an honest answer secure");
    }
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let table = TrustTable::new(1000);
    let mut families: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut triples: BTreeMap<[Verdict; 3], usize> = BTreeMap::new();
    let (mut differing, mut number) = (String::new(), 0);
    for zone in ZONES {
        for (owner, qtype) in QUESTIONS {
            number += 1;
            let honest = tree.reply(name(&format!("{owner}.{zone}")), *qtype);
            let unchanged = Mutant { family: "unchanged", detail: String::new(), reply: honest.clone() };
            let all = mutants_of(&tree, &honest, zone, number);
            let all = all.into_iter().skip(number % most).step_by(most);
            let unchanged = (most < 10 || number % 8 == 0).then_some(unchanged);
            for Mutant { family, detail, reply } in unchanged.into_iter().chain(all) {
                *mutant.lock().expect("no panic") = Some(reply.clone());
                let of_unbound = asked(&client, resolver, &reply).expect("an answer of Unbound");
                let verdicts = [ours(&tree, &table, &reply), of_unbound, delv(&anchors, server, &reply)];
                let same = verdicts.iter().all(|verdict| *verdict == verdicts[0]);
                families.entry(family).or_default()[usize::from(!same)] += 1;
                *triples.entry(verdicts).or_default() += 1;
                if !same {
                    let [ours, unbound, bind] = verdicts;
                    let question = format!("{} {}", reply.name, reply.qtype);
                    writeln!(differing, "{ours:?} {unbound:?} {bind:?}: {question}: {family}: {detail}")
                        .expect("written");
                }
            }
        }
    }
    std::fs::write(folder().join("verdicts.txt"), &differing).expect("written");
    for (family, [same, other]) in &families {
        println!("{family}: {} mutants, {other} judged differently", same + other);
    }
    for ([ours, unbound, bind], count) in &triples {
        println!("nomen {ours:?}, Unbound {unbound:?}, BIND {bind:?}: {count}");
    }
    println!("those that differ: {}", folder().join("verdicts.txt").display());
    let total: usize = triples.values().sum();
    assert!(total > 60, "{total}");
    let is_explained =
        |triple: &[Verdict; 3]| triple.iter().all(|one| *one == triple[0]) || EXPLAINED.contains(triple);
    let unexplained: Vec<_> = triples.keys().filter(|triple| !is_explained(triple)).collect();
    assert!(unexplained.is_empty(), "{unexplained:?}\n{differing}");
}
