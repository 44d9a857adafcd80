//! A secondary of many small zones from a catalog zone: all are added at once, all are due for a refresh at
//! once, many change at once, and the secondary restarts from its disk. None is refreshed too late, and none
//! expires. With a hundred thousand zones, and beside other servers, the workload `secondaries` of
//! `bench/compare` times this.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::catalogs::kept;
use crate::support::{Server, TEST_TIMEOUT, free_address, message, written};

/// Number of zones.
const ZONES: usize = 15;
/// Number of zones that change at once.
const CHANGED: usize = 3;
/// REFRESH of the zones, in seconds.
const REFRESH: u64 = 1;

struct Storm {
    primary: Server,
    secondary: Server,
    asking: UdpSocket,
}

/// Returns the text of a zone of five records.
fn text(serial: u8) -> String {
    format!(
        "$TTL 60\n@ SOA ns1 admin {serial} {REFRESH} 5 86400 60\n@ NS ns1\nns1 A 192.0.2.53\n\
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
         [[zone]]\nname = \"storm\"\nprimaries = [{}]\ncatalog-template = \"members\"\nmin-retry = \"1s\"\n\
         max-retry = \"1s\"\n",
        written(primary)
    );
    Server::start_at(address, home, "state-dir = \"state\"\n", &sections)
}

impl Storm {
    /// Starts both servers, and waits until the secondary serves all zones.
    fn start() -> Storm {
        let [one, other] = [(); 2].map(|()| free_address());
        let home = folder();
        for zone in 0..ZONES {
            let file = home.path().join("zones").join(format!("z{zone}.test.zone"));
            fs::write(file, text(1)).expect("written");
        }
        let primary = start_primary(one, other, home);
        let secondary = start_secondary(other, one, folder());
        let asking = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        asking.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        let storm = Storm { primary, secondary, asking };
        storm.wait("all zones are served", || storm.count("zones", "ok") == ZONES as u64 + 1);
        storm
    }

    /// Returns the number of zones of the secondary in a state.
    fn count(&self, of: &str, state: &str) -> u64 {
        self.secondary.ctl_json(&["status"])[of][state].as_u64().unwrap_or(0)
    }

    /// Waits until a condition holds.
    fn wait(&self, what: &str, so: impl Fn() -> bool) {
        let until = Instant::now() + TEST_TIMEOUT;
        while !so() {
            assert!(Instant::now() < until, "not so: {what}\n{}", self.secondary.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Watches the secondary while all zones become due, beginning when none is.
    fn watch(&self) {
        self.wait("none is due any more", || self.count("secondary_zones", "fresh") == ZONES as u64 + 1);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(REFRESH) {
            assert_eq!(self.count("secondary_zones", "expired"), 0);
        }
        self.wait("none is due any more", || self.count("secondary_zones", "fresh") == ZONES as u64 + 1);
    }

    /// Changes some zones of the primary, and waits until the secondary has all changes.
    fn change(&self) {
        for zone in 0..CHANGED {
            let file = format!("zones/z{zone}.test.zone");
            fs::write(self.primary.path(&file), text(2)).expect("written");
        }
        self.primary.reload();
        self.wait("all changes are served", || (0..CHANGED).all(|zone| self.has(zone, 2)));
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

    /// Stops the secondary until all zones are due, and starts it again: it serves all of them from its disk,
    /// and queries all serials.
    fn restart(mut self) -> Storm {
        self.wait("all zones are on the disk", || kept(&self.secondary) > ZONES);
        let (address, home) = (self.secondary.address, self.secondary.stop());
        std::thread::sleep(Duration::from_secs(REFRESH + 1));
        self.secondary = start_secondary(address, self.primary.address, home);
        self.wait("all zones are served again", || self.count("zones", "ok") == ZONES as u64 + 1);
        self.wait("none is due any more", || self.count("secondary_zones", "fresh") == ZONES as u64 + 1);
        let log = self.secondary.log();
        assert_eq!(log.matches("transfer received").count(), 0, "{log}");
        self
    }
}

#[test]
fn a_storm_of_zones_costs_none_its_refresh() {
    let storm = Storm::start();
    storm.watch();
    storm.change();
    storm.restart().watch();
}
