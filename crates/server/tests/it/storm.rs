//! A secondary of many small zones, which it has from a catalog zone: all of them come at once, all are due at once, many
//! change at once, and it comes back from its disk. None is refreshed later than it has to be, and none expires.
//!
//! Without more, that is tried with a few zones, and nothing is timed. With a number of zones the two servers are at 127.0.2.1
//! and 127.0.2.2, and it ends in counts and times. It fails where a zone was due for longer than [`BOUND`], or expired:
//!
//! ```text
//! NOMEN_STORM_ZONES=100000 cargo test --release -p nomen --test it -- storm --nocapture
//! ```

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::catalogs::kept;
use crate::support::{PATIENCE, Server, free_address, message, written};

/// Longest time that a zone may be due without having been refreshed, where it is timed.
const BOUND: Duration = Duration::from_secs(5);

/// The number of zones, if the run is by hand.
fn wanted_zones() -> Option<usize> {
    std::env::var("NOMEN_STORM_ZONES").ok()?.parse().ok()
}

struct Storm {
    primary: Server,
    secondary: Server,
    zones: usize,
    /// REFRESH of the zones, in seconds.
    refresh: u64,
    /// Whether nothing is in the way of other tests, so that times mean something.
    is_timed: bool,
    asking: UdpSocket,
}

/// The text of a zone of five records.
fn text(serial: u8, refresh: u64) -> String {
    format!(
        "$TTL 60\n@ SOA ns1 admin {serial} {refresh} 5 86400 60\n@ NS ns1\nns1 A 192.0.2.53\n\
         www A 192.0.2.{serial}\nwww AAAA 2001:db8::1\n"
    )
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    ["state", "zones"].iter().for_each(|name| fs::create_dir(folder.path().join(name)).expect("made"));
    folder
}

fn start_primary(address: SocketAddr, secondary: SocketAddr, home: TempDir) -> Server {
    let shared = format!("allow-transfer = [\"127.0.0.0/8\"]\nnotify = [{}]\n", written(secondary));
    let sections = format!(
        "[template.many]\ndirectory = \"zones\"\ncatalog-member = \"storm\"\n{shared}\
         [[zone]]\nname = \"storm\"\ncatalog-produce = true\n{shared}\
         [transfers]\noutgoing = 1000\noutgoing-per-client = 1000\n"
    );
    let keys = "state-dir = \"state\"\ntcp-connections-per-client = 1000\n";
    Server::start_at(address, home, keys, &sections)
}

fn start_secondary(address: SocketAddr, primary: SocketAddr, home: TempDir) -> Server {
    let sections = format!(
        "[template.members]\nmin-refresh = \"1s\"\nmin-retry = \"1s\"\n\
         [[zone]]\nname = \"storm\"\nprimaries = [{}]\ncatalog-template = \"members\"\nmin-retry = \"1s\"\nmax-retry = \"1s\"\n",
        written(primary)
    );
    Server::start_at(address, home, "state-dir = \"state\"\n", &sections)
}

impl Storm {
    /// Starts both servers. Returns the time from a primary that answers to a secondary that serves all zones.
    fn start() -> (Storm, Duration) {
        let (is_timed, zones) = (wanted_zones().is_some(), wanted_zones().unwrap_or(15));
        let [one, other] = match is_timed {
            true => [1, 2].map(|last| SocketAddr::from((Ipv4Addr::new(127, 0, 2, last), 10_053))),
            false => [(); 2].map(|()| free_address()),
        };
        let refresh = if is_timed { (zones as u64 / 2000).max(10) } else { 1 };
        let home = folder();
        for zone in 0..zones {
            let file = home.path().join("zones").join(format!("z{zone}.test.zone"));
            fs::write(file, text(1, refresh)).expect("written");
        }
        let primary = start_primary(one, other, home);
        let begun = Instant::now();
        let secondary = start_secondary(other, one, folder());
        let asking = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        asking.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        let storm = Storm { primary, secondary, zones, refresh, is_timed, asking };
        storm.wait("all zones are served", || storm.count("zones", "ok") == zones as u64 + 1);
        (storm, begun.elapsed())
    }

    /// How many zones the secondary has in a state.
    fn count(&self, of: &str, state: &str) -> u64 {
        self.secondary.ctl_json(&["status"])[of][state].as_u64().unwrap_or(0)
    }

    /// Waits until something is so. Longer than anything takes with so many zones.
    fn wait(&self, what: &str, so: impl Fn() -> bool) {
        let until = Instant::now() + PATIENCE + Duration::from_millis(20) * self.zones as u32;
        while !so() {
            assert!(Instant::now() < until, "not so: {what}\n{}", self.secondary.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Looks at the secondary while all zones are refreshed `rounds` times, from when none is due. Returns for how long some
    /// zone was due.
    fn watch(&self, rounds: u64) -> Duration {
        self.wait("none is due any more", || self.count("secondary_zones", "fresh") == self.zones as u64 + 1);
        let (begun, mut since, mut longest) = (Instant::now(), None, Duration::ZERO);
        while begun.elapsed() < Duration::from_secs(rounds * self.refresh) {
            assert_eq!(self.count("secondary_zones", "expired"), 0);
            match self.count("secondary_zones", "stale") {
                0 => since = None,
                _ => longest = longest.max(since.get_or_insert_with(Instant::now).elapsed()),
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(!self.is_timed || longest < BOUND, "{longest:?}");
        longest
    }

    /// Changes so many zones of the primary. Returns how long it takes until the secondary has all of it, from when the
    /// primary has.
    fn change(&self, zones: usize) -> Duration {
        for zone in 0..zones {
            let file = format!("zones/z{zone}.test.zone");
            fs::write(self.primary.path(&file), text(2, self.refresh)).expect("written");
        }
        self.primary.reload();
        let (begun, until) = (Instant::now(), PATIENCE + Duration::from_millis(20) * zones as u32);
        for zone in 0..zones {
            while !self.has(zone, 2) {
                assert!(begun.elapsed() < until, "z{zone}.test has not changed\n{}", self.secondary.log());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        begun.elapsed()
    }

    /// Whether the secondary has this version of a zone.
    fn has(&self, zone: usize, serial: u8) -> bool {
        self.asking
            .send_to(&message(7, &format!("www.z{zone}.test"), 1), self.secondary.address)
            .expect("sent");
        let mut packet = [0; 512];
        let received = self.asking.recv(&mut packet);
        received.is_ok_and(|len| packet[..len].windows(6).any(|bytes| bytes == [0, 4, 192, 0, 2, serial]))
    }

    /// Stops the secondary until all zones are due, and starts it again. Returns how long it takes until it serves all of
    /// them, from its disk, and until none is due any more.
    fn restart(mut self) -> (Storm, [Duration; 2]) {
        self.wait("all zones are on the disk", || kept(&self.secondary) > self.zones);
        let (address, home) = (self.secondary.address, self.secondary.stop());
        std::thread::sleep(Duration::from_secs(self.refresh + 1));
        let begun = Instant::now();
        self.secondary = start_secondary(address, self.primary.address, home);
        self.wait("all zones are served again", || self.count("zones", "ok") == self.zones as u64 + 1);
        let served = begun.elapsed();
        self.wait("none is due any more", || self.count("secondary_zones", "fresh") == self.zones as u64 + 1);
        let fresh = begun.elapsed();
        let log = self.secondary.log();
        assert_eq!(log.matches("transfer received").count(), 0, "{log}");
        (self, [served, fresh])
    }

    fn megabytes(server: &Server) -> u64 {
        server.ctl_json(&["status"])["memory_bytes"].as_u64().unwrap_or(0) >> 20
    }
}

#[test]
fn a_storm_of_zones_costs_none_its_refresh() {
    let (storm, start) = Storm::start();
    let memory = Storm::megabytes(&storm.secondary);
    let rounds = if storm.is_timed { 3 } else { 1 };
    let due = storm.watch(rounds);
    let changed = storm.zones / 5;
    let change = storm.change(changed);
    let (storm, [served, fresh]) = storm.restart();
    let due_again = storm.watch(rounds);
    eprintln!(
        "{} zones, due each {} s: all served after {start:.1?}, with {memory} MiB (the primary: {} MiB); {changed} that changed \
         after {change:.1?}; after a restart all served after {served:.1?}, none due after {fresh:.1?}, with {} MiB; due at the \
         longest {due:.1?} and {due_again:.1?}; none expired",
        storm.zones,
        storm.refresh,
        Storm::megabytes(&storm.primary),
        Storm::megabytes(&storm.secondary),
    );
}
