//! The same scenarios with Unbound, BIND and PowerDNS Recursor instead of our resolver: each scenario's
//! servers answer at port 53 of their addresses, in a network namespace of its own, and each query is sent to
//! all three. Their answers are compared with the expected ones. Where the three agree with each other and
//! not with the scenario, the test fails, unless `peers.md` beside this file lists the query with the reason.
//!
//! Compares response code and answer section, without TTLs. A scenario runs up to the first line that real
//! servers cannot reproduce: a long wait, a query that is pending while others are sent, a setting that peers
//! lack.
//!
//! ```text
//! PEERS_SCENARIO='servers: SERVFAIL of all' cargo test -p resolver --test iterate -- --nocapture peers
//! ```
//!
//! runs the scenarios whose title contains that text, and prints each peer's answers. All differences are in
//! `peers.txt` in the build's folder for test files.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use resolver::Minimisation;
use testkit::network::{self, Port};
use testkit::peers::{DO, PeerKind, PeerMinimisation, PeerProcess, PeerRule, PeerSetup, ask_once};
use testkit::verdicts::{SCENARIO, ScenarioAnswers, compare_with_peers};
use transport::Transport;
use wire::message::{Header, Parser};
use wire::{NameBuf, Type, rdata};

use crate::FILES;
use crate::internet::{Host, Rr, name};
use crate::play::Play;
use crate::shown::duration;

/// Longest wait between two queries that the test waits for.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// Longest wait for a peer's reply: longer than clients wait. A missing reply counts as SERVFAIL.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// A scenario: its title, and its lines with the common ones of the file.
struct Scenario {
    title: String,
    lines: Vec<&'static str>,
}

fn scenarios() -> Vec<Scenario> {
    let mut all: Vec<Scenario> = Vec::new();
    for (file, text) in FILES {
        let (mut common, first) = (Vec::new(), all.len());
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(title) = line.strip_prefix("scenario ") {
                all.push(Scenario { title: format!("{file}: {title}"), lines: common.clone() });
            } else if all.len() > first {
                all.last_mut().expect("a scenario").lines.push(line);
            } else {
                common.push(line);
            }
        }
    }
    all
}

#[test]
fn other_resolvers_answer_as_the_scenarios_expect() {
    let titles: Vec<String> = scenarios().into_iter().map(|scenario| scenario.title).collect();
    let different: BTreeSet<&String> = titles.iter().collect();
    assert_eq!(different.len(), titles.len(), "a title occurs twice");
    let inside = "peers::inside_a_scenario_is_played_by_others";
    compare_with_peers(&titles, inside, env!("CARGO_TARGET_TMPDIR"), include_str!("peers.md"), 200);
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_scenario_is_played_by_others() {
    network::inside();
    let wanted = std::env::var(SCENARIO).expect("a title");
    let scenario = scenarios().into_iter().find(|scenario| scenario.title == wanted).expect("a scenario");
    let mut stage = Stage::new(&scenario.title);
    for line in &scenario.lines {
        if !stage.play(line) {
            break;
        }
    }
}

/// A scenario on real sockets.
struct Stage {
    title: String,
    folder: PathBuf,
    play: Arc<Mutex<Play>>,
    setup: PeerSetup,
    peers: Vec<PeerProcess>,
    /// Open ports by address, and whether they are for TCP.
    ports: BTreeMap<(IpAddr, bool), Port>,
    addresses: BTreeSet<IpAddr>,
    /// The root zone got servers for the peers.
    is_root_completed: bool,
    /// Each client's query, and each peer's reply.
    asked: BTreeMap<String, (String, Replies)>,
}

/// The reply of each peer, if it sent one.
type Replies = Vec<Option<Vec<u8>>>;

/// Keywords of lines that set something up.
const SETTING_UP: [&str; 10] =
    ["server", "zone", "+", "-", "unserve", "is", "hints", "primed", "no-rules", "forward"];

impl Stage {
    fn new(title: &str) -> Stage {
        // Short, since names of sockets include it.
        let number = scenarios().iter().position(|scenario| scenario.title == title).expect("a scenario");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers").join(number.to_string());
        std::fs::create_dir_all(&folder).expect("a folder");
        network::swallow_the_rest();
        let setup = PeerSetup {
            rules: Vec::new(),
            anchor: None,
            minimisation: PeerMinimisation::Relaxed,
            ipv6: true,
            loopback: false,
            stale: false,
        };
        Stage {
            title: title.to_owned(),
            folder,
            play: Arc::new(Mutex::new(Play::new(title.to_owned()))),
            setup,
            peers: Vec::new(),
            ports: BTreeMap::new(),
            addresses: BTreeSet::new(),
            is_root_completed: false,
            asked: BTreeMap::new(),
        }
    }

    /// Runs a line. Returns whether that was possible.
    fn play(&mut self, line: &str) -> bool {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let is_running = !self.peers.is_empty();
        match verb {
            "hints" | "primed" | "no-rules" | "forward" if is_running => return false,
            verb if SETTING_UP.contains(&verb) => {
                self.play.lock().expect("no panic").line(0, line);
                if is_running {
                    self.open();
                }
            }
            "set" => return !is_running && self.set(words[0], words[1]),
            "at" => {
                let pause = duration(words[0].trim_start_matches('+'));
                if pause > LONGEST_PAUSE {
                    return false;
                }
                std::thread::sleep(pause);
            }
            "ask" => return self.ask(&words),
            "answer" => self.compare(words[0], rest.split_once(' ').expect("an answer").1),
            "failed" => match words[1] {
                "NoRule" | "NoOtherServer" | "Overspent" | "Shed" => return false,
                _ => self.compare(words[0], "SERVFAIL"),
            },
            "log" | "took" | "sent" | "bytes" | "count" | "ended" | "step" | "agent" => {}
            // Timing, copies of zones, and changes of the settings.
            _ => return false,
        }
        true
    }

    /// Applies a setting, if peers have it.
    fn set(&mut self, key: &str, value: &str) -> bool {
        match key {
            "minimisation" | "ipv6" | "loopback" => {
                self.play.lock().expect("no panic").line(0, &format!("set {key} {value}"));
            }
            "explore" | "first-timeout" => {}
            _ => return false,
        }
        true
    }

    /// Starts the peers, with the settings up to here.
    fn start(&mut self) -> bool {
        let setup = {
            let mut play = self.play.lock().expect("no panic");
            let Some(rules) = rules(&play) else { return false };
            self.is_root_completed = complete_root(&mut play, &rules);
            let iterate = &play.config.iterate;
            let minimisation = match iterate.minimisation {
                Minimisation::Off => PeerMinimisation::Off,
                Minimisation::Relaxed => PeerMinimisation::Relaxed,
                Minimisation::Strict => PeerMinimisation::Strict,
            };
            let (ipv6, loopback) = (iterate.ipv6, iterate.loopback);
            PeerSetup { rules, minimisation, ipv6, loopback, ..self.setup.clone() }
        };
        self.setup = setup;
        self.open();
        let build = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the build folder");
        for kind in PeerKind::ALL {
            let program = kind.program(build).expect("a program");
            self.peers.push(PeerProcess::start(kind, &program, &self.setup, &self.folder));
        }
        self.peers.iter_mut().for_each(|peer| peer.wait(&self.folder));
        true
    }

    /// Opens the ports of the current servers, and closes the others.
    fn open(&mut self) {
        let hosts: Vec<Host> = self.play.lock().expect("no panic").net.hosts.values().cloned().collect();
        let mut wanted = BTreeSet::new();
        for host in &hosts {
            let closed = host.is("closed") || host.is("no-route");
            for &address in host.addresses.iter().filter(|_| !closed) {
                wanted.insert((address, false));
                if !host.is("refuses-tcp") && !host.is("no-route-tcp") {
                    wanted.insert((address, true));
                }
            }
            for address in &host.addresses {
                if self.addresses.insert(*address) && !address.is_loopback() {
                    network::add_address(*address);
                }
            }
        }
        self.ports.retain(|port, _| wanted.contains(port));
        for (address, is_tcp) in wanted {
            let play = Arc::clone(&self.play);
            let (at, transport) =
                (SocketAddr::new(address, 53), if is_tcp { Transport::Tcp } else { Transport::Udp });
            let replies = move |query: &[u8]| reply(&play, at, query, transport);
            self.ports.entry((address, is_tcp)).or_insert_with(|| Port::open(at, is_tcp, Arc::new(replies)));
        }
    }

    /// Queries all peers at once, and waits for them.
    fn ask(&mut self, words: &[&str]) -> bool {
        let bound = |word: &&str| word.starts_with("not=") || ["later", "chaos"].contains(word);
        if words.iter().any(bound) || self.peers.is_empty() && !self.start() {
            return false;
        }
        let qname = name(words[1]);
        let qtype = Type::from_text(words[2].as_bytes()).expect("a type");
        let flags = if words.contains(&"do") { DO } else { 0 };
        let ask = |kind: PeerKind| ask_once(kind.address(), &qname, qtype, 1, flags, REPLY_TIMEOUT);
        let replies = std::thread::scope(|scope| {
            let all: Vec<_> = PeerKind::ALL.map(|kind| scope.spawn(move || ask(kind))).into();
            all.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        self.asked.insert(words[0].to_owned(), (format!("{} {}", words[1], words[2]), replies));
        true
    }

    /// Compares the peers' answers to a client's query with the expected one.
    fn compare(&mut self, client: &str, expected: &str) {
        let Some((question, replies)) = self.asked.remove(client) else { return };
        let expected = Answer::expected(expected);
        let replies: Vec<Answer> = replies.iter().map(|reply| Answer::of(reply.as_deref())).collect();
        // Where the scenario ends at an alias, peers continue, and may fail there. Their hints name the
        // servers of the root.
        let is_failed = expected.leads_on && replies.iter().all(|answer| answer.rcode == "SERVFAIL");
        if is_failed || question == ". NS" && self.is_root_completed {
            return;
        }
        let theirs = replies.iter().map(|answer| match expected.is_begun_by(answer) {
            true => expected.to_string(),
            false => answer.to_string(),
        });
        let answers = std::iter::once(expected.to_string()).chain(theirs).collect();
        println!("{}", ScenarioAnswers { scenario: self.title.clone(), question, answers });
    }
}

/// The rules of a scenario for peers; `None` if they have no equivalent.
fn rules(play: &Play) -> Option<Vec<PeerRule>> {
    let iterate = &play.config.iterate;
    let mut rules: Vec<PeerRule> = Vec::new();
    for rule in &iterate.rules {
        let named = rule.servers.iter().enumerate().map(|(n, server)| {
            let name =
                server.name.map_or_else(|| format!("h{n}.root-servers.peer."), |name| name.to_string());
            (name, server.addresses.iter().map(SocketAddr::ip).collect())
        });
        rules.push(PeerRule { domain: rule.domain, servers: named.collect(), forward: false });
    }
    for rule in &play.config.rules {
        let servers = rule.upstreams.iter().map(|upstream| (String::new(), vec![upstream.address.ip()]));
        rules.push(PeerRule { domain: rule.domain, servers: servers.collect(), forward: true });
    }
    rules.iter().any(|rule| rule.domain.as_name().is_root()).then_some(rules)
}

/// Peers prime the root: a root zone without NS records gets the servers that the rule names. Returns whether
/// it did.
fn complete_root(play: &mut Play, rules: &[PeerRule]) -> bool {
    let root = play.net.zones.iter_mut().find(|zone| zone.apex.as_name().is_root());
    let Some(zone) = root else { return false };
    let is_own = |rr: &Rr| rr.rtype == Type::NS && rr.owner.as_name().is_root();
    let root = rules.iter().find(|rule| rule.domain.as_name().is_root());
    if zone.records.iter().any(is_own) {
        return false;
    }
    for (server, addresses) in root.into_iter().flat_map(|rule| &rule.servers) {
        let server = name(server);
        let data = server.as_name().as_wire().to_vec();
        zone.records.push(Rr { owner: NameBuf::ROOT, ttl: 3600, rtype: Type::NS, data });
        for address in addresses {
            let (rtype, data) = match address {
                IpAddr::V4(v4) => (Type::A, v4.octets().to_vec()),
                IpAddr::V6(v6) => (Type::AAAA, v6.octets().to_vec()),
            };
            zone.records.push(Rr { owner: server, ttl: 3600, rtype, data });
        }
    }
    true
}

/// Returns the reply of the server at an address, if any, and its delay.
fn reply(
    play: &Mutex<Play>,
    at: SocketAddr,
    query: &[u8],
    transport: Transport,
) -> Option<(Vec<u8>, Duration)> {
    let play = play.lock().expect("no panic");
    let (_, host) = play.net.host_at(at)?;
    let (_, mut parser) = Parser::new(query).ok()?;
    let question = parser.question().ok()?;
    if play.net.is_mute(host, question.name, question.qtype, transport) {
        return None;
    }
    let mut reply = play.net.reply(host, query, transport);
    // The size that OPT offers; the peers offer 1232 at the most.
    let most =
        parser.record().ok().filter(|opt| opt.rtype == Type::OPT).map_or(512, |opt| opt.class.0.into());
    if transport == Transport::Udp && reply.len() > most {
        let cut = Host { ways: [String::from("tc")].into(), ..host.clone() };
        reply = play.net.reply(&cut, query, transport);
    }
    Some((reply, host.delay().unwrap_or_default()))
}

/// A response code and the records of an answer section, sorted and without TTLs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    rcode: String,
    records: BTreeSet<String>,
    /// The answer ends at an alias: its target is another query's answer.
    leads_on: bool,
}

impl Answer {
    /// Reads it from a scenario's line.
    fn expected(line: &str) -> Answer {
        let mut words = line.split(' ').skip_while(|word| word.contains('='));
        let leads_on = line.split(' ').any(|word| word.starts_with("leads-to="));
        let rcode = words.next().expect("a response code").trim_end_matches(':').to_owned();
        let records = words.collect::<Vec<_>>().join(" ");
        let records = records.split("; ").filter(|record| !record.is_empty() && !record.starts_with("auth "));
        let without_ttl = |record: &str| {
            let words: Vec<&str> = record.split(' ').collect();
            [&words[..1], &words[2..]].concat().join(" ").to_lowercase()
        };
        Answer { rcode, records: records.map(without_ttl).collect(), leads_on }
    }

    /// Reads it from a reply; no reply counts as SERVFAIL.
    fn of(reply: Option<&[u8]>) -> Answer {
        let Some(reply) = reply else {
            return Answer { rcode: "SERVFAIL".into(), records: BTreeSet::new(), leads_on: false };
        };
        let (header, mut parser) = Parser::new(reply).expect("a header");
        for _ in 0..header.counts()[0] {
            parser.question().expect("a question");
        }
        let records = (0..header.counts()[1]).map(|_| {
            let record = parser.record().expect("a record");
            let (mut data, mut text) = (Vec::new(), String::new());
            parser.expand_rdata(&record, &mut data).expect("data");
            let owner = parser.name_at(record.owner_at).expect("a name");
            rdata::write_text(record.rtype, &data, &mut text).expect("text");
            format!("{owner} {} {text}", record.rtype).to_lowercase()
        });
        let records = records.collect();
        let rcode = Header::of(reply).expect("a header").rcode().to_string();
        Answer { rcode, records, leads_on: false }
    }

    /// Whether `whole` begins with this answer.
    fn is_begun_by(&self, whole: &Answer) -> bool {
        self.leads_on && whole.rcode != "SERVFAIL" && self.records.is_subset(&whole.records)
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let records: Vec<&str> = self.records.iter().map(String::as_str).collect();
        let colon = if records.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.rcode, records.join("; "))?;
        f.write_str(if self.leads_on { " …" } else { "" })
    }
}
