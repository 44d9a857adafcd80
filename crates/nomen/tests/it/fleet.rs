//! A fleet: one primary and its secondaries, which have all zones from one catalog zone. Changes on the
//! primary, of zones or of the catalog, reach all nodes; a node that was down catches up by differences.
//!
//! By default it has three nodes and a few zones, and nothing is timed. With a number of zones it has ten
//! nodes, at 127.0.1.1 to 127.0.1.10, and reports counts and times, which only fail far above the expected
//! values:
//!
//! ```text
//! NOMEN_FLEET_ZONES=10000 cargo test --release -p nomen --test it -- fleet --nocapture
//! ```

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::catalogs::kept;
use crate::primary::KEY_FILE;
use crate::support::{APEX, Server, TEST_TIMEOUT, free_address, message, written};

/// The primary sees all nodes at the same source address: the system chooses it.
const STATE: &str = "state-dir = \"state\"\ntcp-connections-per-client = 1000\n";
const TRANSFERS: &str = "[transfers]\nkey-files = [\"transfer.key\"]\nnotify-in-flight = 1000\n\
                         outgoing = 1000\noutgoing-per-client = 1000\n";
/// Longest time until a change is on all nodes, if timed; a tenth of a second is expected.
const BOUND: Duration = Duration::from_secs(10);

/// Returns an address with the key, as peers are written.
fn peer(address: SocketAddr) -> String {
    format!("\"{} key:transfer.example\"", written(address).trim_matches('"'))
}

/// Returns the number of zones of a manual run.
fn wanted_zones() -> Option<usize> {
    std::env::var("NOMEN_FLEET_ZONES").ok()?.parse().ok()
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    ["state", "zones", "more"]
        .iter()
        .for_each(|name| fs::create_dir(folder.path().join(name)).expect("made"));
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    folder
}

/// Returns the name of a zone.
fn name(number: usize) -> String {
    format!("z{number}.test")
}

struct Fleet {
    primary: Server,
    nodes: Vec<Server>,
    zones: usize,
    /// Whether no other tests run, so that times are meaningful.
    is_timed: bool,
}

impl Fleet {
    /// Starts the primary and its nodes. Returns the time from the primary's first answer until the nodes
    /// have everything.
    fn start() -> (Fleet, Duration) {
        let zones = wanted_zones();
        let count = if zones.is_some() { 10 } else { 3 };
        let addresses: Vec<SocketAddr> = match zones {
            Some(_) => (1..=count).map(|n| SocketAddr::from((Ipv4Addr::new(127, 0, 1, n), 10_053))).collect(),
            None => (0..count).map(|_| free_address()).collect(),
        };
        let (is_timed, zones) = (zones.is_some(), zones.unwrap_or(12));
        let home = folder();
        for zone in 0..zones {
            let file = home.path().join("zones").join(format!("{}.zone", name(zone)));
            fs::write(file, format!("{APEX}www A 192.0.2.1\n")).expect("written");
        }
        for zone in ["gone.test", "new.test"] {
            fs::write(home.path().join("more").join(zone), format!("{APEX}www A 192.0.2.1\n"))
                .expect("written");
        }
        // They retry until there is a primary, and already run when it sends NOTIFY.
        let node = |address: &SocketAddr| {
            let sections = node_sections(addresses[0]);
            Server::start_at(*address, folder(), STATE, &sections)
        };
        let nodes: Vec<Server> = addresses[1..].iter().map(node).collect();
        let primary = Server::start_at(addresses[0], home, STATE, &primary_sections(&addresses[1..]));
        let (fleet, begun) = (Fleet { primary, nodes, zones, is_timed }, Instant::now());
        fleet.primary.ctl_json(&["zone", "add", "gone.test", "--template", "more"]);
        fleet.wait("all zones are on all nodes", |node| {
            node.ctl_json(&["status"])["zones"]["ok"].as_u64() == Some(zones as u64 + 2)
        });
        (fleet, begun.elapsed())
    }

    /// Returns a timeout far above anything with this many zones.
    fn patience(&self) -> Duration {
        TEST_TIMEOUT + Duration::from_millis(20) * self.zones as u32
    }

    /// Waits until a condition holds for each node.
    fn wait(&self, what: &str, so: impl Fn(&Server) -> bool) {
        let until = Instant::now() + self.patience();
        for node in &self.nodes {
            while !so(node) {
                assert!(Instant::now() < until, "not so: {what}\n{}", node.log());
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// Changes the address of a zone's `www` to 192.0.2.`value` with nsupdate.
    fn change(&self, zone: usize, value: u8) {
        let (ip, port) = (self.primary.address.ip(), self.primary.address.port());
        let www = format!("www.{}", name(zone));
        let script = format!(
            "server {ip} {port}\nzone {}\nupdate delete {www} A\nupdate add {www} 60 A 192.0.2.{value}\n\
             send\n",
            name(zone)
        );
        let mut child = Command::new("nsupdate")
            .args(["-k", "transfer.key"])
            .current_dir(self.primary.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("nsupdate runs");
        child.stdin.take().expect("its input").write_all(script.as_bytes()).expect("written");
        assert!(child.wait().expect("it ends").success(), "{}", self.primary.log());
    }

    /// Returns the time until all nodes answer with a change of a zone, including nsupdate itself.
    fn time_of_change(&self, zone: usize, value: u8) -> Duration {
        let (begun, www) = (Instant::now(), format!("www.{}", name(zone)));
        self.change(zone, value);
        let asking = Asking::new();
        for node in &self.nodes {
            while !asking.has(node, &www, value) {
                assert!(
                    begun.elapsed() < TEST_TIMEOUT,
                    "{www} has not changed on {}\n{}",
                    node.address,
                    node.log()
                );
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let took = begun.elapsed();
        assert!(!self.is_timed || took < BOUND, "{took:?}");
        took
    }

    /// Stops a node while a zone changes, one is added, and one is removed. Returns how long it takes to
    /// catch up.
    fn node_is_off(&mut self) -> Duration {
        let node = self.nodes.pop().expect("a node");
        let until = Instant::now() + self.patience();
        while kept(&node) < self.zones + 2 {
            assert!(Instant::now() < until, "{} zones are on the disk", kept(&node));
            std::thread::sleep(Duration::from_millis(100));
        }
        let (address, left) = (node.address, node.stop());
        self.change(0, 77);
        self.primary.ctl_json(&["zone", "remove", "gone.test"]);
        self.primary.ctl_json(&["zone", "add", "new.test", "--template", "more"]);
        let node = Server::start_at(address, left, STATE, &node_sections(self.primary.address));
        let (begun, asking) = (Instant::now(), Asking::new());
        // NOTIFYs sent while it was down are repeated for half a minute; after that it depends on its timers.
        for zone in ["fleet", &name(0)] {
            node.ctl_json(&["zone", "refresh", zone]);
        }
        self.nodes.push(node);
        let www = format!("www.{}", name(0));
        self.wait("what changed is on all nodes", |node| {
            asking.has(node, &www, 77)
                && asking.has(node, "www.new.test", 1)
                && asking.is_refused(node, "gone.test")
        });
        let took = begun.elapsed();
        let node = self.nodes.last().expect("a node");
        for zone in ["fleet", &name(0)] {
            let last = node.ctl_json(&["zone", "status", zone])["transfers"]["last_transfer"].clone();
            assert_eq!(last["kind"], "IXFR", "{zone}: {last}");
        }
        took
    }
}

fn primary_sections(nodes: &[SocketAddr]) -> String {
    let told: Vec<String> = nodes.iter().map(|node| peer(*node)).collect();
    let shared = format!("allow-transfer = [\"key:transfer.example\"]\nnotify = [{}]\n", told.join(", "));
    format!(
        "[template.fleet]\ndirectory = \"zones\"\ncatalog-member = \"fleet\"\n\
         allow-update = [\"key:transfer.example\"]\n{shared}\
         [template.more]\nfile = \"more/{{zone}}\"\ncatalog-member = \"fleet\"\n{shared}\
         [[zone]]\nname = \"fleet\"\ncatalog-produce = true\n{shared}{TRANSFERS}"
    )
}

fn node_sections(primary: SocketAddr) -> String {
    format!(
        "[template.members]\nmin-retry = \"1s\"\n\
         [[zone]]\nname = \"fleet\"\nprimaries = [{}]\ncatalog-template = \"members\"\n\
         min-retry = \"1s\"\nmax-retry = \"1s\"\n{TRANSFERS}",
        peer(primary)
    )
}

/// Queries nodes over UDP, which is faster than a process.
struct Asking(UdpSocket);

impl Asking {
    fn new() -> Asking {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        Asking(socket)
    }

    /// Returns the answer of a node; `None` if it is lost.
    fn ask(&self, node: &Server, name: &str) -> Option<Vec<u8>> {
        self.0.send_to(&message(7, name, 1), node.address).expect("sent");
        let mut packet = [0; 512];
        let (len, from) = self.0.recv_from(&mut packet).ok()?;
        (from == node.address).then(|| packet[..len].to_vec())
    }

    /// Whether a node has this address at a name.
    fn has(&self, node: &Server, name: &str, value: u8) -> bool {
        let answer = self.ask(node, name);
        answer.is_some_and(|answer| answer.windows(6).any(|window| window == [0, 4, 192, 0, 2, value]))
    }

    fn is_refused(&self, node: &Server, name: &str) -> bool {
        self.ask(node, name).is_some_and(|answer| answer[3] & 15 == 5)
    }
}

#[test]
fn a_fleet_follows_its_primary_and_a_node_that_was_off_catches_up() {
    if !testkit::has_programs(&["nsupdate"]) {
        return;
    }
    let (mut fleet, load) = Fleet::start();
    let changes = if fleet.is_timed { 20 } else { 2 };
    let mut times: Vec<Duration> = (0..changes)
        .map(|change| fleet.time_of_change(change * fleet.zones / changes, 100 + change as u8))
        .collect();
    times.sort();
    let back = fleet.node_is_off();
    let log = fleet.primary.log();
    let sent = ["AXFR", "IXFR"].map(|kind| log.matches(&format!("kind=\"{kind}\"")).count());
    eprintln!(
        "{} nodes, {} zones: on all nodes after {load:.1?}; {changes} changes, each on all nodes after \
         {:.1?} to {:.1?}, \
         {:.1?} in the middle; a node that was off has caught up after {back:.1?}; {} AXFR, {} IXFR",
        fleet.nodes.len() + 1,
        fleet.zones,
        times[0],
        times[times.len() - 1],
        times[times.len() / 2],
        sent[0],
        sent[1]
    );
    assert!(sent[0] >= fleet.zones * fleet.nodes.len() && sent[1] >= changes * fleet.nodes.len());
}
