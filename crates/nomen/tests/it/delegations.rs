//! Delegations of zones here (`delegation-updates`): DS records, NS records and glue become what child zones
//! ask for, if it is proven, and only then. Parent and children are servers of a small network: see
//! [`in_a_network`].

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::changes::STATE;
use crate::iterate::{authority, in_a_network, inside, ip};
use crate::metrics::http;
use crate::support::{Server, eventually, run, text};
use crate::zone_signing::state;

const PARENT: &str = "\
$TTL 1
@ SOA ns admin 1 3600 600 86400 1
@ NS ns
ns A 10.53.0.2
*._dsync DSYNC CDS NOTIFY 53 ns
child NS ns1.child
child NS ns2.child
ns1.child A 10.53.0.3
ns2.child A 10.53.0.4
";
const CHILD: &str = "\
$TTL 1
@ SOA ns1 admin 1 3600 600 86400 1
@ NS ns1
@ NS ns2
ns1 A 10.53.0.3
ns2 A 10.53.0.4
";
/// The address of the metrics of the parent's server.
const FIGURES: &str = "10.53.0.2@9153";

/// A zone that is signed by keys of a folder, with its CDS records.
struct SignedZone {
    text: String,
    /// The data of its CDS records, with upper-case digests.
    cds: Vec<String>,
}

fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Makes a key of a zone in a folder of its own, and in further ones.
fn make_key(folder: &Path, zone: &str, keys: &[&str]) {
    keys.iter().for_each(|keys| fs::create_dir_all(folder.join(keys)).expect("made"));
    succeeds(folder, &["key", "generate", zone, "-K", keys[0]]);
    for other in &keys[1..] {
        for file in fs::read_dir(folder.join(keys[0])).expect("keys").flatten() {
            fs::copy(file.path(), folder.join(other).join(file.file_name())).expect("copied");
        }
    }
}

/// Signs a zone with the keys of a folder, with CDS records of them or without.
fn sign(folder: &Path, zone: &str, plain: &str, keys: &str, options: &[&str]) -> SignedZone {
    fs::write(folder.join("plain"), plain).expect("written");
    succeeds(folder, &[&["zone", "sign", zone, "plain", "-K", keys, "-o", "signed"], options].concat());
    let text = fs::read_to_string(folder.join("signed")).expect("a zone");
    let cds = text.lines().filter_map(|line| Some(line.split_once(" IN CDS ")?.1.to_owned())).collect();
    SignedZone { text, cds }
}

/// Starts the server of the parent zone in a folder; it asks children after NOTIFY and by command.
fn parent(folder: TempDir, keys: &str, more: &str) -> Server {
    let keys = format!(
        "[log]\naudit-file = \"audit.log\"\n[metrics]\nlisten = \"{FIGURES}\"\n{more}\
         [[zone]]\nname = \"test\"\nfile = \"test.txt\"\ndelegation-scan = \"0s\"\nallow-transfer = [\"any\"]\n{keys}"
    );
    Server::start_at(SocketAddr::from(([10, 53, 0, 2], 53)), folder, STATE, &keys)
}

/// Returns a folder with the parent zone and these records.
fn parent_folder(records: &str) -> TempDir {
    ip("address add 10.53.0.2/32 dev lo");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("test.txt"), format!("{PARENT}{records}")).expect("written");
    folder
}

/// The DS or CDS records of a child, sorted.
fn ds_like(server: &Server, child: &str, rtype: &str) -> Vec<String> {
    let answer = server.query(&[child, rtype, "+short"]);
    let records = answer.lines().filter(|line| line.contains(" 13 2 "));
    let mut all: Vec<String> = records.map(|line| joined(&line.to_uppercase())).collect();
    all.sort_unstable();
    all
}

fn ds(parent: &Server, child: &str) -> Vec<String> {
    ds_like(parent, child, "DS")
}

/// Data of a DS record with its digest in one piece.
fn joined(ds: &str) -> String {
    let mut words = ds.split_whitespace();
    let numbers: Vec<&str> = words.by_ref().take(3).collect();
    format!("{} {}", numbers.join(" "), words.collect::<String>())
}

/// Checks a delegation. Returns the outcome, and the reason of a refusal.
fn check(parent: &Server, child: &str) -> String {
    let found = parent.ctl_json(&["delegation", "check", "test", child]);
    let row = &found["checks"][0];
    let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    format!("{} {}", word("outcome"), word("reason")).trim_end().to_owned()
}

fn counted(series: &str) -> u64 {
    let page = http(SocketAddr::from(([10, 53, 0, 2], 9153)), "GET /metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
    line.unwrap_or_else(|| panic!("no {series}: {page}"))
}

fn dig(server: &Server, words: &[&str]) -> String {
    let at = format!("@{}", server.address.ip());
    let output = Command::new("dig").arg(at).args(words).output().expect("dig runs");
    text(&output.stdout)
}

/// Sends NOTIFY of this type, and returns the response code.
fn notify(parent: &Server, name: &str, rtype: &str) -> String {
    let said = dig(parent, &[name, rtype, "+opcode=notify", "+norec"]);
    let status = said.split_once("status: ").and_then(|(_, rest)| rest.split([',', ';']).next());
    status.unwrap_or(&said).to_owned()
}

/// The two servers of the child zone.
struct Child([Server; 2]);

impl Child {
    fn start(zone: &str) -> Child {
        Child([3, 4].map(|last| authority(last, &[("child.test", zone)])))
    }

    /// Serves these texts.
    fn serve(&self, zones: [&str; 2]) {
        for (server, zone) in self.0.iter().zip(zones) {
            server.write("child_test.txt", zone);
            let output = server.ctl(&["zone", "reload", "child.test", "--force"]);
            assert!(output.status.success(), "{}{}", text(&output.stderr), server.log());
        }
    }
}

#[test]
fn ds_records_become_what_a_child_proves() {
    if testkit::has_programs(&["dig"]) {
        in_a_network("delegations::inside_ds_records_become_what_a_child_proves");
    }
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_ds_records_become_what_a_child_proves() {
    inside();
    let tools = tempfile::tempdir().expect("a folder");
    let tools = tools.path();
    make_key(tools, "child.test", &["old", "both"]);
    make_key(tools, "child.test", &["new", "both"]);
    let (old, new) = (
        sign(tools, "child.test", CHILD, "old", &["--cds"]),
        sign(tools, "child.test", CHILD, "new", &["--cds"]),
    );
    let both = sign(tools, "child.test", CHILD, "both", &["--cds"]);
    let asks_for = |cds: &str, keys| sign(tools, "child.test", &format!("{CHILD}@ CDS {cds}\n"), keys, &[]);
    let (rolled, breaks) = (asks_for(&new.cds[0], "both"), asks_for(&new.cds[0], "old"));
    let other_digest = format!("{} {}", new.cds[0].rsplit_once(' ').expect("a digest").0, "AB".repeat(32));
    let tampered = rolled.text.replace(&new.cds[0], &other_digest);
    let deletes = asks_for("0 0 0 00", "new");

    let child = Child::start(&old.text);
    let delegation = format!("child DS {}\n", old.cds[0]);
    let server = parent(parent_folder(&delegation), "delegation-updates = [\"cds\"]\n", "");
    assert_eq!(check(&server, "child.test"), "unchanged");
    for (zones, outcome) in [
        ([&*both.text, &*old.text], "refused servers-disagree"),
        ([CHILD, CHILD], "nothing"),
        ([&*new.text, &*new.text], "refused wrong-signer"),
        ([&*tampered, &*tampered], "refused bad-signature"),
        ([&*breaks.text, &*breaks.text], "refused would-break"),
    ] {
        child.serve(zones);
        assert_eq!(check(&server, "child.test"), outcome, "{}", server.log());
        assert_eq!(ds(&server, "child.test"), old.cds, "{outcome}");
        if let Some(reason) = outcome.strip_prefix("refused ") {
            assert_eq!(counted(&format!("nomen_delegation_refusals_total{{reason=\"{reason}\"}}")), 1);
            server.wait_for_log(&format!("child.test. are not accepted, reason={reason}: "), 1);
        }
    }
    // A NOTIFY for another name has no effect, and one for the child leads to a check.
    child.serve([&rolled.text; 2]);
    assert_eq!(
        [notify(&server, "www.test", "CDS"), notify(&server, "child.test", "CDS")],
        ["REFUSED", "NOERROR"]
    );
    eventually("the DS records change", &server, || ds(&server, "child.test") == new.cds);
    let audited = fs::read_to_string(server.path("audit.log")).expect("an audit file");
    assert!(audited.contains("child=child.test. why=\"CDS signed by a key of the DS records"), "{audited}");
    let change = dig(&server, &["test", "IXFR=1"]);
    assert!([&old, &new].iter().all(|zone| change.contains(&zone.cds[0][..40])), "{change}");

    // What is accepted outlives the server, and the child may have its delegation made unsigned.
    let server = parent(server.stop(), "delegation-updates = [\"cds\"]\n", "");
    assert_eq!(ds(&server, "child.test"), new.cds);
    child.serve([&deletes.text; 2]);
    assert_eq!(check(&server, "child.test"), "changed");
    assert!(ds(&server, "child.test").is_empty());
    child.serve([&new.text; 2]);
    assert_eq!(check(&server, "child.test"), "unsigned", "first DS records are not accepted");
    assert!(ds(&server, "child.test").is_empty());
}

#[test]
fn name_servers_and_glue_become_what_a_child_proves() {
    if testkit::has_programs(&["dig"]) {
        in_a_network("delegations::inside_name_servers_and_glue_become_what_a_child_proves");
    }
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_name_servers_and_glue_become_what_a_child_proves() {
    inside();
    let tools = tempfile::tempdir().expect("a folder");
    let tools = tools.path();
    make_key(tools, "child.test", &["keys"]);
    let signed = |text: &str| sign(tools, "child.test", text, "keys", &["--cds"]);
    // The server of `ns1` gets another name.
    let moved = CHILD.replace("ns1", "ns3").replace("admin 1 ", "admin 5 ");
    let with = |csync: &str| signed(&format!("{moved}@ CSYNC {csync}\n")).text;
    let wanted = with("5 3 NS A AAAA");
    let lost = moved.replace("ns3 A 10.53.0.3", "ns3 A 10.53.0.9");
    let unreachable = signed(&format!("{lost}@ CSYNC 5 3 NS A\n")).text;
    let older = signed(&format!("{}@ CSYNC 3 3 NS A AAAA\n", CHILD.replace("admin 1 ", "admin 3 ")));

    let child = Child::start(&older.text);
    let delegation = format!("child DS {}\n", older.cds[0]);
    let server = parent(parent_folder(&delegation), "delegation-updates = [\"csync\"]\n", "");
    for (zones, outcome) in [
        ([&*signed(&moved).text; 2], "nothing"),
        ([&*wanted, &*older.text], "refused servers-disagree"),
        ([&*with("5 2 NS A AAAA"); 2], "refused not-immediate"),
        ([&*with("6 3 NS A AAAA"); 2], "refused below-soaminimum"),
        ([&*with("5 3 NS"); 2], "refused glue"),
        ([&*format!("{moved}@ CSYNC 5 3 NS A AAAA\n"); 2], "refused wrong-signer"),
        ([&*unreachable; 2], "refused new-servers"),
    ] {
        child.serve(zones);
        assert_eq!(check(&server, "child.test"), outcome, "{}", server.log());
        if let Some(reason) = outcome.strip_prefix("refused ") {
            let series = format!("nomen_delegation_csync_refusals_total{{reason=\"{reason}\"}}");
            assert_eq!(counted(&series), 1);
        }
    }
    let delegated = || dig(&server, &["child.test", "NS", "+norec"]);
    assert!(delegated().contains("ns1.child.test."), "{}", delegated());
    // A NOTIFY leads to a check, and the change is one of the zone, all of it together.
    child.serve([&wanted; 2]);
    assert_eq!(
        [notify(&server, "child.test", "CDS"), notify(&server, "child.test", "CSYNC")],
        ["NOTIMP", "NOERROR"]
    );
    eventually("the delegation changes", &server, || delegated().contains("ns3.child.test."));
    let found = delegated();
    assert!(!found.contains("ns1.child.test.") && found.contains("10.53.0.3"), "{found}");
    let change = dig(&server, &["test", "IXFR=1", "+short"]);
    assert_eq!(
        change.lines().filter(|line| line.contains(" admin.test. ")).count(),
        4,
        "one change: {change}"
    );
    let audited = fs::read_to_string(server.path("audit.log")).expect("an audit file");
    assert!(
        audited.contains("child=child.test. why=\"CSYNC signed by keys of the child, its serial 5, NS"),
        "{audited}"
    );
    let listed = text(&server.ctl(&["delegation", "list", "test"]).stdout);
    assert!(listed.contains("child.test. csync: changed"), "{listed}");

    // What was accepted outlives the server: an older version of the child has no effect.
    let server = parent(server.stop(), "delegation-updates = [\"csync\"]\n", "");
    assert_eq!(check(&server, "child.test"), "unchanged");
    child.serve([&older.text; 2]);
    assert_eq!(check(&server, "child.test"), "refused older-serial");
}

/// Zones of the name servers of a child: what they signal about it (RFC 9615).
const SIGNALS: &str = "$TTL 1\n@ SOA ns1 admin 1 3600 600 86400 1\n@ NS ns1\n@ NS ns2\n\
                       ns1 A 10.53.0.3\nns2 A 10.53.0.4\n";

#[test]
fn an_unsigned_delegation_gets_ds_records_that_its_name_servers_confirm() {
    in_a_network("delegations::inside_an_unsigned_delegation_gets_ds_records_that_its_name_servers_confirm");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_an_unsigned_delegation_gets_ds_records_that_its_name_servers_confirm() {
    inside();
    let tools = tempfile::tempdir().expect("a folder");
    let tools = tools.path();
    make_key(tools, "new.test", &["child"]);
    make_key(tools, "hoster", &["hoster"]);
    let plain = "$TTL 1\n@ SOA ns1.hoster. admin 1 3600 600 86400 1\n@ NS ns1.hoster.\n@ NS ns2.hoster.\n";
    let child = sign(tools, "new.test", plain, "child", &["--cds"]);
    let cdnskey = child.text.lines().find_map(|line| line.split_once(" IN CDNSKEY ")).expect("a record").1;
    let signals = |names: &[&str]| {
        let signal = |name: &&str| {
            let owner = format!("_dsboot.new.test._signal.{name}");
            format!("{owner} CDS {}\n{owner} CDNSKEY {cdnskey}\n", child.cds[0])
        };
        format!("{SIGNALS}{}", names.iter().map(signal).collect::<String>())
    };
    let anchor = sign(tools, "hoster", SIGNALS, "hoster", &["--cds"]).cds;
    let signed = |names: &[&str]| sign(tools, "hoster", &signals(names), "hoster", &[]).text;
    let one = signed(&["ns1"]);

    let root = "$TTL 1\n@ SOA a admin 1 3600 600 86400 1\n@ NS a.root.\na.root. A 10.53.0.1\n\
                hoster NS ns1.hoster\nns1.hoster A 10.53.0.3\n";
    let _root = authority(1, &[(".", root)]);
    ip("address add 10.53.0.4/32 dev lo");
    let hoster = authority(3, &[("hoster", &one), ("new.test", &child.text)]);
    let second = Server::start_at(
        SocketAddr::from(([10, 53, 0, 4], 53)),
        {
            let folder = tempfile::tempdir().expect("a folder");
            fs::write(folder.path().join("new.txt"), &child.text).expect("written");
            folder
        },
        "",
        "[[zone]]\nname = \"new.test\"\nfile = \"new.txt\"\n",
    );
    let resolver = |anchors: &str| {
        format!(
            "[resolver]\nroot-servers = [\"10.53.0.1\"]\ntrust-anchors = [{anchors}]\n\
                 max-ttl = \"0s\"\nmax-negative-ttl = \"0s\"\n"
        )
    };
    let anchor = format!("\"hoster. DS {}\"", anchor[0]);
    let folder = parent_folder("new NS ns1.hoster.\nnew NS ns2.hoster.\n");
    let server = parent(folder, "delegation-updates = [\"cds\"]\n", &resolver(&anchor));
    assert_eq!(check(&server, "new.test"), "unsigned", "it is off by default");
    server.reconfigure("[\"cds\"]", "[\"cds\", \"bootstrap\"]");
    server.reload();
    assert_eq!(check(&server, "new.test"), "refused signal", "one of two name servers: {}", server.log());
    hoster.write("hoster.txt", &signed(&["ns1", "ns2"]));
    hoster.reload();
    assert!(server.ctl(&["nta", "add", "hoster"]).status.success());
    assert_eq!(check(&server, "new.test"), "refused signal", "the signals are insecure: {}", server.log());
    assert!(ds(&server, "new.test").is_empty());
    assert!(server.ctl(&["nta", "remove", "hoster"]).status.success());
    assert_eq!(check(&server, "new.test"), "changed", "{}", server.log());
    assert_eq!(ds(&server, "new.test"), child.cds);
    let audited = fs::read_to_string(server.path("audit.log")).expect("an audit file");
    assert!(audited.contains("why=\"CDS confirmed by its name servers (RFC 9615)"), "{audited}");
    drop(second);
}

#[test]
fn a_key_signing_key_rolls_without_an_operator() {
    in_a_network("delegations::inside_a_key_signing_key_rolls_without_an_operator");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_key_signing_key_rolls_without_an_operator() {
    inside();
    let root = "$TTL 1\n@ SOA a admin 1 3600 600 86400 1\n@ NS a.root.\na.root. A 10.53.0.1\n\
                test NS ns.test\nns.test A 10.53.0.2\n";
    let _root = authority(1, &[(".", root)]);
    for last in [3, 4] {
        ip(&format!("address add 10.53.0.{last}/32 dev lo"));
    }
    let server = parent(parent_folder(""), "delegation-updates = [\"none\"]\napi = true\n", "");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("child.txt"), CHILD).expect("written");
    let child = Server::start_at(
        SocketAddr::from(([10, 53, 0, 3], 53)),
        folder,
        STATE,
        "[[listen]]\naddr = [\"10.53.0.4@53\"]\n[resolver]\nroot-servers = [\"10.53.0.1\"]\nvalidate = false\n\
         [dnssec-policy.fast]\ndnskey-ttl = \"1s\"\npublish-safety = \"0s\"\nretire-safety = \"0s\"\n\
         zone-propagation-delay = \"0s\"\nparent-propagation-delay = \"0s\"\nparent-ds-ttl = \"1s\"\n\
         [[zone]]\nname = \"child.test\"\nfile = \"child.txt\"\ndnssec-policy = \"fast\"\n",
    );
    let cds = || ds_like(&child, "child.test", "CDS");
    eventually("the child has CDS records", &child, || cds().len() == 1);
    let first = cds();
    let delegation = format!("child.test. 1 DS {}", first[0]);
    for arguments in [&["begin", "test"][..], &["set", "test", &delegation], &["commit", "test"]] {
        let output = server.ctl(&[&["zone"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let keys =
        || child.ctl_json(&["key", "list", "child.test"])["keys"].as_array().cloned().unwrap_or_default();
    let is_used = |key: &Value| state(key, "ds") == "omnipresent";
    eventually("the first key is in use", &child, || keys().iter().any(is_used));
    // Otherwise the NOTIFY of the first key would have delayed that of the next one.
    server.reconfigure("[\"none\"]", "[\"cds\"]");
    server.reload();
    assert!(child.ctl(&["key", "roll", "child.test", "--role", "csk"]).status.success());
    eventually("the DS records are those of the new key", &child, || {
        let now = ds(&server, "child.test");
        now != first && now == cds()
    });
    let is_gone = |key: &Value| state(key, "dnskey") == "hidden";
    eventually("the old key is removed", &child, || keys().iter().filter(|key| is_gone(key)).count() == 1);
    assert!(counted("nomen_delegation_notify_total{result=\"taken\"}") >= 1);
}
