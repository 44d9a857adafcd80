//! DS records pushed to the parent (`ds-push`): the parent zone of the same server, and servers of others by
//! signed updates. A rollover goes on when the servers of the parent have the records, not before.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::changes::{self, STATE};
use crate::metrics::http;
use crate::primary::{KEY_FILE, other, secret};
use crate::support::{APEX, Server, eventually, free_address, run, text, written};
use crate::xot::{Authority, over_tls};
use crate::zone_signing::{keys, policy, state, tag, verify, wait_settled};

/// The child zone, with TTLs of a second, so that no cache is waited for.
const CHILD: &str = "\
$TTL 1
@ SOA ns admin 1 3600 600 86400 1
@ NS ns
ns A 192.0.2.3
www A 192.0.2.80
";
const ZONE: &str = "sub.example";
/// The delegation of the child in the parent zone.
const DELEGATION: &str = "sub 1 NS ns.sub\nns.sub 1 A 192.0.2.3\n";
const KEYS: &str = "[transfers]\nkey-files = [\"transfer.key\"]\n";

/// The data of the records of a type of the child, at any server, in order and with upper-case digests.
fn records_at(server: SocketAddr, rtype: &str) -> Vec<String> {
    let at = format!("@{}@{}", server.ip(), server.port());
    let output = run(Path::new("."), &["query", &at, ZONE, rtype, "+short", "+norec"]);
    let mut all: Vec<String> = text(&output.stdout)
        .lines()
        .filter(|line| line.split(' ').count() >= 4 && !line.starts_with(';'))
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            format!("{} {}", words[..3].join(" "), words[3..].concat().to_uppercase())
        })
        .collect();
    all.sort();
    all
}

/// Returns the folder of a server that signs the child, without the parent zone.
fn child_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    fs::write(folder.path().join("sub.zone"), CHILD).expect("written");
    folder
}

/// Returns the same, with the parent zone.
fn folder_of_both() -> TempDir {
    let folder = child_folder();
    fs::write(folder.path().join("example.zone"), format!("{APEX}{DELEGATION}")).expect("written");
    folder
}

/// The block of the child zone, whose DS records are pushed and looked for there.
fn block(push: &str, parents: &[SocketAddr]) -> String {
    let parents: Vec<String> = parents.iter().map(|parent| written(*parent)).collect();
    format!(
        "{}[[zone]]\nname = \"{ZONE}\"\nfile = \"sub.zone\"\ndnssec-policy = \"fast\"\n\
         allow-transfer = [\"any\"]\nds-push = [{push}]\nparental-servers = [{}]\n",
        policy("fast", ""),
        parents.join(", ")
    )
}

/// Starts a server that signs the child, and pushes its DS records to a parent with a key.
fn child_of(parent: SocketAddr, servers: &[SocketAddr], more: &str) -> Server {
    let push = format!("\"{} key:transfer.example\"", written(parent).trim_matches('"'));
    let text = format!("{KEYS}{}{more}", block(&push, servers));
    let server = Server::start_in(child_folder(), STATE, &text);
    wait_settled(&server, ZONE);
    server
}

/// What was pushed for the child.
fn pushed(server: &Server) -> Value {
    server.ctl_json(&["key", "list", ZONE])["ds_push"].clone()
}

/// Waits until the parent has what the CDS records of the child ask for, and the server has seen it. Returns
/// the DS records.
fn wait_for_ds(server: &Server, parent: SocketAddr, before: &[String]) -> Vec<String> {
    eventually("the parent has the DS records that CDS asks for", server, || {
        let (ds, cds) = (records_at(parent, "DS"), records_at(server.address, "CDS"));
        !ds.is_empty() && ds == cds && ds != before
    });
    eventually("the server has seen them", server, || {
        let all = keys(server, ZONE);
        all.iter().any(|key| key["goal"] == "omnipresent" && state(key, "ds") == "omnipresent")
    });
    records_at(parent, "DS")
}

/// The first DS record, a rollover of the key, and the removal of all DS records.
fn rolls_at(server: &Server, parent: SocketAddr, kind: &str) {
    let first = wait_for_ds(server, parent, &[]);
    assert_eq!(first.len(), 1, "{kind}");
    let old = tag(&keys(server, ZONE)[0]);
    assert!(server.ctl(&["key", "roll", ZONE, "--role", "csk"]).status.success());
    let second = wait_for_ds(server, parent, &first);
    assert_eq!(second.len(), 1, "{kind}: the DS record of the old key is replaced");
    eventually("the old key is removed", server, || {
        keys(server, ZONE).iter().any(|key| tag(key) == old && state(key, "dnskey") == "hidden")
    });
    let found = pushed(server);
    assert_eq!(found["state"], "accepted", "{kind}: {found}");
    verify(server, ZONE);
    server.reconfigure(
        "file = \"sub.zone\"\ndnssec-policy = \"fast\"",
        "file = \"sub.zone\"\ndnssec-policy = \"insecure\"",
    );
    server.reload();
    eventually("the DS records are removed", server, || records_at(parent, "DS").is_empty());
    server.wait_for_log("DS records pushed to ", 3);
}

#[test]
fn the_parent_zone_of_the_same_server_is_changed() {
    let (address, metrics) = (free_address(), free_address());
    // The parent zone is signed as well; its change is one like any other.
    let parent = "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\napi = true\n\
                  allow-transfer = [\"any\"]\ndnssec-policy = \"fast\"\n";
    let text_of = format!(
        "[metrics]\nlisten = {}\n[log]\naudit-file = \"audit.log\"\n{parent}{}",
        written(metrics),
        block("\"here\"", &[address])
    );
    let server = Server::start_at(address, folder_of_both(), STATE, &text_of);
    rolls_at(&server, address, "here");
    verify(&server, "example");
    let audited = fs::read_to_string(server.path("audit.log")).expect("an audit file");
    let line = audited.lines().find(|line| line.contains("by=\"ds-push\"") || line.contains("by=ds-push"));
    let line = line.unwrap_or_else(|| panic!("{audited}"));
    assert!(line.contains("child=sub.example.") && line.contains("CDS records of sub.example."), "{line}");
    let page = http(metrics, "GET /metrics");
    let accepted = page
        .lines()
        .find_map(|line| line.strip_prefix("nomen_signing_ds_pushes_total{result=\"accepted\"} "));
    assert_eq!(accepted, Some("3"), "{page}");
}

#[test]
fn the_parent_at_another_nomen_is_changed_by_an_update() {
    let allowed = "update-policy = [\"grant key:transfer.example name sub.example. DS\"]\n";
    let parent = changes::start(changes::folder(&format!("{APEX}{DELEGATION}")), allowed);
    let server = child_of(parent.address, &[parent.address], "");
    rolls_at(&server, parent.address, "nomen");
}

#[test]
fn bind_and_knot_are_parents() {
    let configs: [(&str, &str, &[&str]); 2] = [("BIND", "named", &["-g", "-c"]), ("Knot", "knotd", &["-c"])];
    for (kind, program, arguments) in configs {
        let config = |own: SocketAddr, folder: &Path| {
            fs::write(folder.join("example.zone"), format!("{APEX}{DELEGATION}")).expect("written");
            let (folder, ip, port) = (folder.display(), own.ip(), own.port());
            match kind {
                "BIND" => format!(
                    "{KEY_FILE}options {{ directory \"{folder}\"; pid-file none; session-keyfile none; \
                     lock-file none;\nlisten-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; \
                     recursion no; notify no; allow-transfer {{ any; }}; }};\ncontrols {{ }};\n\
                     zone \"example\" {{ type primary; file \"example.zone\"; \
                     update-policy {{ grant transfer.example name sub.example DS; }}; }};\n"
                ),
                _ => format!(
                    "server:\n  rundir: \"{folder}\"\n  listen: {ip}@{port}\n\
                     database:\n  storage: \"{folder}\"\n\
                     key:\n  - id: transfer.example\n    algorithm: hmac-sha256\n    secret: {}\n\
                     acl:\n  - id: child\n    key: transfer.example\n    action: update\n    \
                     update-type: DS\n  - id: all\n    address: 0.0.0.0/0\n    action: transfer\n\
                     zone:\n  - domain: example\n    storage: \"{folder}\"\n    file: example.zone\n    \
                     acl: [child, all]\n",
                    secret()
                ),
            }
        };
        let Some(peer) = other(kind, program, arguments, config) else { continue };
        let server = child_of(peer.address, &[peer.address], "");
        rolls_at(&server, peer.address, kind);
    }
}

#[test]
fn an_update_that_is_refused_is_tried_again_and_said() {
    let metrics = free_address();
    let refused = "update-policy = [\"grant key:transfer.example name other.example. A\"]\n";
    let parent = changes::start(changes::folder(&format!("{APEX}{DELEGATION}")), refused);
    let figures = format!("[metrics]\nlisten = {}\n", written(metrics));
    let server = child_of(parent.address, &[parent.address], &figures);
    eventually("the update is refused", &server, || pushed(&server)["state"] == "failed");
    let found = pushed(&server);
    assert!(found["detail"].as_str().is_some_and(|why| why.contains("REFUSED")), "{found}");
    assert!(found["next_try"].is_u64(), "{found}");
    server.wait_for_log("cannot be pushed to the parent, tried again later: ", 1);
    for verb in ["list", "timeline"] {
        let said = text(&server.ctl(&["key", verb, ZONE]).stdout);
        assert!(said.contains("DS records pushed to ") && said.contains("; next try "), "{verb}: {said}");
    }
    let status = text(&server.ctl(&["zone", "status", ZONE]).stdout);
    assert!(status.contains("ds_push") && status.contains("REFUSED"), "{status}");
    let page = http(metrics, "GET /metrics");
    let failed =
        page.lines().find_map(|line| line.strip_prefix("nomen_signing_ds_pushes_total{result=\"failed\"} "));
    assert!(failed.and_then(|count| count.parse().ok()).is_some_and(|count: u64| count > 0), "{page}");
    assert!(keys(&server, ZONE).iter().all(|key| state(key, "ds") == "rumoured"), "nothing was seen");
    parent.reconfigure("name other.example. A", "name sub.example. DS");
    parent.reload();
    wait_for_ds(&server, parent.address, &[]);
}

#[test]
fn a_parent_without_updates_and_one_without_the_key_are_said() {
    let parent = Server::start(&format!("{APEX}{DELEGATION}"), "");
    let server = child_of(parent.address, &[parent.address], "");
    // It knows no such key.
    eventually("the signature is refused", &server, || {
        pushed(&server)["detail"].as_str().is_some_and(|why| why.contains("BADKEY"))
    });
    drop(server);
    let parent = changes::start(changes::folder(&format!("{APEX}{DELEGATION}")), "");
    let server = child_of(parent.address, &[parent.address], "");
    eventually("the update is refused", &server, || {
        let found = pushed(&server);
        let why = found["detail"].as_str().unwrap_or_default();
        why.contains("REFUSED") || why.contains("NOTIMP")
    });
    drop(server);
    let closed = free_address();
    let server = child_of(closed, &[parent.address], "");
    eventually("no connection", &server, || {
        pushed(&server)["detail"].as_str().is_some_and(|why| why.contains("no connection"))
    });
}

#[test]
fn an_acknowledgement_is_no_ds_record() {
    let allowed = "update-policy = [\"grant key:transfer.example name sub.example. DS\"]\n";
    let parent = changes::start(changes::folder(&format!("{APEX}{DELEGATION}")), allowed);
    // Another server of the parent, which does not get the change.
    let late = Server::start(&format!("{APEX}{DELEGATION}"), "");
    let metrics = free_address();
    let figures = format!("[metrics]\nlisten = {}\n", written(metrics));
    let server = child_of(parent.address, &[parent.address, late.address], &figures);
    eventually("the update is accepted", &server, || pushed(&server)["state"] == "accepted");
    let rounds = || {
        let page = http(metrics, "GET /metrics");
        let asked = page.lines().find_map(|line| {
            line.strip_prefix("nomen_signing_parent_rounds_total{result=\"asked\"} ")?.parse::<u64>().ok()
        });
        asked.unwrap_or_default()
    };
    let before = rounds();
    eventually("the servers are asked again", &server, || rounds() > before + 1);
    assert!(!records_at(parent.address, "DS").is_empty());
    let all = keys(&server, ZONE);
    assert!(all.iter().all(|key| state(key, "ds") == "rumoured"), "{all:?}");
    assert!(refused_roll(&server).contains("not all servers of the parent have the DS record"), "{all:?}");
}

fn refused_roll(server: &Server) -> String {
    let output = server.ctl(&["key", "roll", ZONE, "--role", "csk"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// The standby KSK has its DS record at the parent beside that of the KSK in use, and takes over in one
/// version.
#[test]
fn a_standby_key_takes_over_in_an_emergency() {
    let address = free_address();
    let parent = "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\napi = true\n";
    let block = block("\"here\"", &[address]);
    let keys_of = policy("fast", "single-key = false\nstandby-ksk = true\nstandby-zsk = true\n");
    let block = block.replace(&policy("fast", ""), &keys_of);
    let server = Server::start_at(address, folder_of_both(), STATE, &format!("{parent}{block}"));
    wait_settled(&server, ZONE);
    let is_standby = |key: &&Value| key["duty"] == "standby" && key["goal"] == "omnipresent";
    let standby = |role: &str| {
        let all = keys(&server, ZONE);
        let found = all.iter().filter(is_standby).find(|key| key["role"] == role);
        found.cloned()
    };
    let is_ready = || {
        standby("KSK").is_some_and(|key| state(&key, "ds") == "omnipresent")
            && standby("ZSK").is_some_and(|key| state(&key, "dnskey") == "omnipresent")
    };
    eventually("both standby keys can take over", &server, is_ready);
    assert_eq!(records_at(address, "DS").len(), 2, "of the KSK in use, and of the standby key");
    verify(&server, ZONE);
    for role in ["KSK", "ZSK"] {
        let next = tag(&standby(role).expect("a key"));
        let said = server.ctl(&["key", "roll", ZONE, "--role", &role.to_lowercase(), "--emergency"]);
        assert!(said.status.success(), "{}", text(&said.stderr));
        assert!(text(&said.stdout).contains(&format!("standby key {next}/")), "{}", text(&said.stdout));
        let rtype = if role == "KSK" { "DNSKEY" } else { "www" };
        let signed = || match rtype {
            "DNSKEY" => server.query(&[ZONE, "DNSKEY", "+dnssec", "+norec"]),
            _ => server.query(&["www.sub.example", "A", "+dnssec", "+norec"]),
        };
        eventually("the standby key signs, and no other", &server, || {
            let answer = signed();
            let words = answer.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let signers: Vec<String> = words
                .filter(|words| words.get(3) == Some(&"RRSIG"))
                .filter_map(|words| Some((*words.get(10)?).to_owned()))
                .collect();
            signers == [next.clone()]
        });
        verify(&server, ZONE);
        eventually("another standby key can take over", &server, || {
            standby(role).is_some_and(|key| tag(&key) != next) && is_ready()
        });
    }
    eventually("the DS records are those of the new keys", &server, || {
        let (ds, cds) = (records_at(address, "DS"), records_at(address, "CDS"));
        ds.len() == 2 && ds == cds
    });
    let listed = text(&server.ctl(&["key", "list", ZONE]).stdout);
    assert!(listed.contains(", KSK, standby, goal omnipresent"), "{listed}");
    let output = server.ctl(&["key", "roll", ZONE, "--role", "csk", "--emergency"]);
    assert_eq!(output.status.code(), Some(1), "there is no such key");
}

/// The certificates of both ends authenticate the update, which has no key.
#[test]
fn an_update_over_tls_is_authenticated_by_certificates() {
    let (authority, tls) = (Authority::new(), free_address());
    let folder = authority.folder("parent.example");
    fs::write(folder.path().join("example.zone"), format!("{APEX}{DELEGATION}")).expect("written");
    let parent = format!(
        "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\n\
         update-policy = [\"grant cert:child.example name sub.example. DS\"]\n\
         [[listen]]\naddr = [{}]\nproto = [\"tls\"]\n\
         [[certificate]]\nchain = \"server.pem\"\nkey = \"server.key\"\n",
        written(tls)
    );
    let keys = format!("{STATE}client-ca-file = \"ca.pem\"\n");
    let parent = Server::start_in(folder, &keys, &parent);
    let folder = child_folder();
    authority.write(folder.path(), &authority.sign("child.example", false));
    let files = "ca-file = \"ca.pem\"\nclient-chain = \"server.pem\"\nclient-key = \"server.key\"\n";
    let push = over_tls(tls, "parent.example", "");
    let text_of = format!("{}{files}", block(&push, &[parent.address]));
    let server = Server::start_in(folder, STATE, &text_of);
    wait_for_ds(&server, parent.address, &[]);
    assert_eq!(pushed(&server)["state"], "accepted", "{}", server.log());
}
