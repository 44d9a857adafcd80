//! Longer tests with other primaries and secondaries: PowerDNS, and thousands of versions that BIND and Knot
//! receive and send.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;

use crate::changes::{
    OPEN, Random, STATE, answer, folder, record, same, secondaries, secondary_config, socket, start,
    update_message, zone,
};
use crate::primary::{KEY_FILE, OtherServer, VARIED, other, other_in_folder, records, secret, transfer};
use crate::support::{APEX, Server, eventually, free_address, message, text, written};

/// Number of names that change.
const NAMES: u64 = 300;
/// Number of versions of each zone.
const VERSIONS: u16 = 2000;
/// Number of versions after which the zones are compared.
const COMPARED: u16 = 250;

/// Returns the next change of `zone`: some names get other records, or lose them.
fn next_change(random: &mut Random, number: u16, zone: &str) -> Vec<u8> {
    let mut updates = Vec::new();
    for _ in 0..=random.below(3) {
        let owner = format!("n{}.{zone}", random.below(NAMES));
        let value = (random.below(1 << 24) as u32).to_be_bytes();
        match random.below(5) {
            0 => updates.push(record(&owner, 255, 255, 0, &[])),
            1 => updates.push(record(&owner, 1, 255, 0, &[])),
            2 => updates.push(record(&owner, 16, 1, 60, &[&[4][..], &value].concat())),
            3 => updates.push(record(
                &format!("a.{owner}"),
                28,
                1,
                300,
                &[&[0x20, 1, 0xd, 0xb8][..], &[0; 8], &value].concat(),
            )),
            _ => updates.push(record(&owner, 1, 1, 60, &value)),
        }
    }
    // Something changes in any case, and with it the serial.
    let always = format!("always.{zone}");
    updates.push(record(&always, 16, 255, 0, &[]));
    updates.push(record(&always, 16, 1, 60, &[&[2][..], &number.to_be_bytes()].concat()));
    update_message(number, zone, &updates)
}

fn update(socket: &UdpSocket, message: &[u8]) {
    assert_eq!(answer(socket, message), Some(0));
}

#[test]
fn bind_and_knot_take_thousands_of_random_versions() {
    let nomen = start(folder(&format!("{APEX}{VARIED}")), OPEN);
    let socket = socket(nomen.address);
    let mut random = Random(1);
    update(&socket, &next_change(&mut random, 0, "example"));
    let peers: Vec<(&str, OtherServer)> = secondaries(nomen.address)
        .into_iter()
        .filter_map(|(kind, program, arguments, primary)| {
            let config = |own: SocketAddr, folder: &Path| secondary_config(kind, &primary, own, folder);
            Some((kind, other(kind, program, arguments, config)?))
        })
        .collect();
    if peers.is_empty() {
        return;
    }
    let told: Vec<String> = peers.iter().map(|(_, peer)| written(peer.address)).collect();
    nomen.reconfigure(OPEN, &format!("{OPEN}notify = [{}]\n", told.join(", ")));
    nomen.reload();
    for (_, peer) in &peers {
        eventually("the whole zone is there", &nomen, || {
            zone(peer.address).is_some_and(|theirs| Some(theirs) == zone(nomen.address))
        });
    }
    let whole = |kind: &str| nomen.log().matches(&format!("kind=\"{kind}\"")).count();
    let before = whole("IXFR");
    for number in 1..=VERSIONS {
        update(&socket, &next_change(&mut random, number, "example"));
        if number % COMPARED == 0 {
            let ours = zone(nomen.address);
            for (kind, peer) in &peers {
                eventually("the newest version is there", &nomen, || {
                    serial(peer.address, "example") == serial(nomen.address, "example")
                });
                same(&ours, &zone(peer.address), kind);
            }
        }
    }
    assert!(whole("IXFR") >= before + peers.len() * usize::from(VERSIONS / COMPARED), "{}", nomen.log());
    for (kind, peer) in &peers {
        let log = fs::read_to_string(peer.folder.path().join("log")).unwrap_or_default();
        assert!(!log.contains("fallback") && !log.contains("not exact"), "{kind}\n{log}");
    }
}

/// Returns the serial that a server has.
fn serial(server: SocketAddr, zone: &str) -> Option<u32> {
    TcpStream::connect(server).ok()?;
    transfer(server, zone, None).ok().map(|zone| zone.serial().0)
}

/// Returns BIND and Knot as primaries of zones of their names, which send NOTIFY to a nomen.
fn primaries(nomen: SocketAddr) -> Vec<(&'static str, OtherServer)> {
    let (ip, port) = (nomen.ip(), nomen.port());
    let bind = move |own: SocketAddr, folder: &Path| {
        fs::write(folder.join("bind.zone"), format!("{APEX}{VARIED}")).expect("written");
        format!(
            "options {{ directory \"{}\"; pid-file none; session-keyfile none; lock-file none;\n\
             listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }}; recursion no; notify explicit; \
             notify-delay 0;\nnotify-rate 1000; }};\ncontrols {{ }};\n\
             zone \"bind\" {{ type primary; file \"bind.zone\"; allow-transfer {{ any; }}; \
             max-ixfr-ratio unlimited;\nallow-update {{ any; }}; also-notify {{ {ip} port {port}; }}; }};\n",
            folder.display(),
            own.port(),
            own.ip()
        )
    };
    let knot = move |own: SocketAddr, folder: &Path| {
        fs::write(folder.join("knot.zone"), format!("{APEX}{VARIED}")).expect("written");
        let folder = folder.display();
        format!(
            "server:\n  rundir: \"{folder}\"\n  listen: {}@{}\ndatabase:\n  storage: \"{folder}\"\n\
             remote:\n  - id: nomen\n    address: {ip}@{port}\n\
             acl:\n  - id: all\n    address: 127.0.0.0/8\n    action: [transfer, update]\n\
             zone:\n  - domain: knot\n    storage: \"{folder}\"\n    notify: nomen\n    acl: all\n\
             \x20   journal-max-depth: 3000\n",
            own.ip(),
            own.port()
        )
    };
    let all = [
        ("bind", other("BIND", "named", &["-g", "-c"], bind)),
        ("knot", other("Knot", "knotd", &["-c"], knot)),
    ];
    all.into_iter().filter_map(|(zone, peer)| Some((zone, peer?))).collect()
}

#[test]
fn thousands_of_random_versions_of_bind_and_knot_are_taken() {
    let address = free_address();
    let peers = primaries(address);
    let zones: String = peers
        .iter()
        .map(|(name, peer)| {
            format!(
                "[[zone]]\nname = \"{name}\"\nprimaries = [{}]\nallow-notify = [\"127.0.0.0/8\"]\n\
                 allow-transfer = [\"any\"]\nmin-retry = \"1s\"\nmax-retry = \"1s\"\nmin-refresh = \"1s\"\n",
                written(peer.address)
            )
        })
        .collect();
    let nomen = Server::start_at(address, tempfile::tempdir().expect("a folder"), STATE, &zones);
    let taken = |name: &str| nomen.ctl_json(&["zone", "status", name])["transfers"].clone();
    for (name, peer) in &peers {
        eventually("it is taken", &nomen, || taken(name)["state"] == "fresh");
        let (socket, mut random) = (socket(peer.address), Random(2));
        for number in 1..=VERSIONS {
            update(&socket, &next_change(&mut random, number, name));
            if number % COMPARED == 0 {
                eventually("the newest version is there", &nomen, || {
                    serial(address, name) == serial(peer.address, name)
                });
                let [ours, theirs] = [address, peer.address]
                    .map(|at| transfer(at, name, None).ok().map(|zone| records(&zone)));
                same(&ours, &theirs, name);
            }
        }
        let is_difference = |line: &&str| {
            line.contains(&format!("zone=\"{name}.\"")) && line.contains("kind=\"IXFR\" records")
        };
        let came = nomen.log().lines().filter(is_difference).count();
        assert!(came >= usize::from(VERSIONS / COMPARED), "{came}\n{}", nomen.log());
        // The differences that nomen stores serve other secondaries, too.
        let last = serial(address, name).expect("a serial");
        let said = nomen.query(&[name, &format!("IXFR={}", last - 5)]);
        assert!(said.contains(&format!(" {} ", last - 5)), "{said}");
    }
}

#[test]
fn random_versions_of_a_file_are_taken_as_differences() {
    let settings = "allow-transfer = [\"any\"]\nixfr-from-differences = true\n";
    let mut random = Random(3);
    let mut hosts: Vec<(u64, u64)> = (0..2000).map(|name| (name, random.below(250))).collect();
    let version = |serial: u32, hosts: &[(u64, u64)]| {
        let apex = APEX.replace("admin 1 ", &format!("admin {serial} "));
        let hosts: String =
            hosts.iter().map(|(name, value)| format!("n{name} A 192.0.2.{value}\n")).collect();
        format!("{apex}{VARIED}{hosts}")
    };
    let nomen = Server::start_in(folder(&version(1, &hosts)), STATE, settings);
    let peers: Vec<OtherServer> = secondaries(nomen.address)
        .into_iter()
        .filter_map(|(kind, program, arguments, primary)| {
            other(kind, program, arguments, |own: SocketAddr, folder: &Path| {
                secondary_config(kind, &primary, own, folder)
            })
        })
        .collect();
    let is_there = |peer: &OtherServer| serial(peer.address, "example") == serial(nomen.address, "example");
    peers.iter().for_each(|peer| eventually("the whole zone is there", &nomen, || is_there(peer)));
    let told: Vec<String> = peers.iter().map(|peer| written(peer.address)).collect();
    nomen.reconfigure(settings, &format!("{settings}notify = [{}]\n", told.join(", ")));
    for serial in 2..=60 {
        for _ in 0..random.below(20) {
            let at = random.below(hosts.len() as u64) as usize;
            match random.below(3) {
                0 => drop(hosts.swap_remove(at)),
                1 => hosts.push((10_000 + random.below(1_000_000), 7)),
                _ => hosts[at].1 = random.below(250),
            }
        }
        hosts.dedup_by_key(|(name, _)| *name);
        nomen.write("example.zone", &version(serial, &hosts));
        nomen.hang_up();
        if serial % 20 == 0 {
            for peer in &peers {
                eventually("the newest version is there", &nomen, || is_there(peer));
                same(&zone(nomen.address), &zone(peer.address), "after differences of a file");
            }
        }
    }
    let sent = nomen.log().matches("kind=\"IXFR\"").count();
    assert!(sent >= 3 * peers.len(), "{sent}\n{}", nomen.log());
}

/// Returns the configuration of a PowerDNS with its BIND backend: secondary of `example.` at a nomen, and
/// primary of `pdns.`, with the key.
fn powerdns(nomen: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        fs::write(folder.join("pdns.zone"), format!("{APEX}{VARIED}")).expect("written");
        let place = folder.display();
        let zones = format!(
            "options {{ directory \"{place}\"; }};\n\
             zone \"example\" {{ type slave; file \"example.zone\"; masters {{ {nomen}; }}; }};\n\
             zone \"pdns\" {{ type master; file \"pdns.zone\"; }};\n"
        );
        fs::write(folder.join("named.conf"), zones).expect("written");
        let config = format!(
            "launch=bind\nbind-config={place}/named.conf\nbind-dnssec-db={place}/dnssec.db\n\
             local-address={}\n\
             local-port={}\nsocket-dir={place}\nprimary=yes\nsecondary=yes\nallow-axfr-ips=127.0.0.0/8\n\
             also-notify={nomen}\nonly-notify=\ndaemon=no\nguardian=no\nsetuid=\nsetgid=\n\
             xfr-cycle-interval=1\ntrusted-notification-proxy=127.0.0.1\n\
             security-poll-suffix=\nquery-cache-ttl=0\ncache-ttl=0\nnegquery-cache-ttl=0\n\
             zone-cache-refresh-interval=0\n",
            own.ip(),
            own.port()
        );
        // The default name of its configuration.
        fs::write(folder.join("pdns.conf"), &config).expect("written");
        let database = folder.join("dnssec.db");
        for arguments in [
            &["create-bind-db", database.to_str().expect("text")][..],
            &["import-tsig-key", "transfer.example", "hmac-sha256", secret()],
            &["activate-tsig-key", "example", "transfer.example", "secondary"],
            &["activate-tsig-key", "example", "transfer.example", "primary"],
            &["activate-tsig-key", "pdns", "transfer.example", "primary"],
        ] {
            let made = Command::new("pdnsutil").arg(format!("--config-dir={place}")).args(arguments).output();
            let made = made.expect("pdnsutil runs");
            assert!(made.status.success(), "{arguments:?}: {}", text(&made.stderr));
        }
        config
    }
}

/// Whether a server answers with an address of a name.
fn has(server: SocketAddr, name: &str) -> bool {
    let (socket, mut reply) = (socket(server), [0; 512]);
    let asked = socket.send(&message(1, name, 1)).is_ok();
    asked && socket.recv(&mut reply).is_ok() && reply[3] & 15 == 0 && reply[7] > 0
}

/// Runs a command of a PowerDNS server.
fn control(peer: &OtherServer, words: &[&str]) {
    let folder = peer.folder.path().display();
    let said = Command::new("pdns_control").arg(format!("--socket-dir={folder}")).args(words).output();
    assert!(said.expect("pdns_control runs").status.success(), "{words:?}");
}

#[test]
fn powerdns_takes_zones_and_sends_them_signed_and_tells_of_changes() {
    let address = free_address();
    let folder = folder(&format!("{APEX}{VARIED}"));
    let Some(peer) = other_in_folder("PowerDNS", "pdns_server", &["--config-dir=."], powerdns(address))
    else {
        return;
    };
    let keys = format!(
        "allow-transfer = [\"key:transfer.example\", \"127.0.0.0/8\"]\nixfr-from-differences = true\n\
         notify = [{}]\n\
         [[zone]]\nname = \"pdns\"\nprimaries = [\"{} key:transfer.example\"]\nallow-transfer = [\"any\"]\n\
         min-retry = \"1s\"\n[transfers]\nkey-files = [\"transfer.key\"]\n",
        written(peer.address),
        written(peer.address).trim_matches('"')
    );
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    let nomen = Server::start_at(address, folder, STATE, &keys);
    let of = |server: SocketAddr, name: &str| -> Option<BTreeSet<String>> {
        TcpStream::connect(server).ok()?;
        let key = std::sync::Arc::new(transfer::tsig::read_keys(KEY_FILE).expect("a key").remove(0));
        transfer(server, name, Some(&key)).ok().map(|zone| records(&zone))
    };
    for serial in 1..=3 {
        if serial > 1 {
            let apex = APEX.replace("admin 1 ", &format!("admin {serial} "));
            let version = format!("{apex}{VARIED}new-{serial} A 192.0.2.{serial}\n");
            nomen.write("example.zone", &version);
            nomen.reload();
            fs::write(peer.folder.path().join("pdns.zone"), version).expect("written");
            control(&peer, &["bind-reload-now", "pdns"]);
            control(&peer, &["notify", "pdns"]);
        }
        let host = if serial == 1 { "ns1".to_owned() } else { format!("new-{serial}") };
        for name in ["example", "pdns"] {
            for server in [nomen.address, peer.address] {
                eventually("the version is there", &nomen, || has(server, &format!("{host}.{name}")));
            }
            let [ours, theirs] = [nomen.address, peer.address].map(|server| of(server, name));
            same(&ours, &theirs, name);
        }
    }
    // It got a NOTIFY: its own timer is an hour. It receives and sends whole zones.
    let lines = |first: &str, kind: &str| {
        let is_one = |line: &&str| line.contains(first) && line.contains(kind);
        nomen
            .log()
            .lines()
            .filter(is_one)
            .map(|line| line.contains("key=\"transfer.example.\""))
            .collect::<Vec<_>>()
    };
    eventually("it is logged", &nomen, || lines("transfer sent", "serial=3").contains(&true));
    assert!(!lines("transfer received", "").contains(&false), "{}", nomen.log());
}
