//! Zones that the server signs without the KSK (`offline-ksk`): requests are signed elsewhere, by nomen and
//! by `dnssec-ksr`, responses are taken and published at their times, also after a restart, and what
//! validators would reject is refused.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::changes::STATE;
use crate::metrics::http;
use crate::support::{Server, eventually, free_address, run, text, written};
use crate::zone_signing::{keys, policy, verify, wait_settled};

const ZONE: &str =
    "$TTL 1\n@ SOA ns1 admin 1 3600 600 86400 1\n@ NS ns1\nns1 A 192.0.2.1\nwww A 192.0.2.80\n";
/// The keys of the policy.
const OFFLINE: &str = "single-key = false\noffline-ksk = true\nzsk-lifetime = \"30d\"\n";

/// Starts a server with the zone, and makes a KSK in the folder `offline`.
fn start() -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), ZONE).expect("written");
    fs::create_dir(folder.path().join("offline")).expect("made");
    let made = run(folder.path(), &["key", "generate", "example", "--role", "ksk", "-K", "offline"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    start_in(folder, "")
}

fn start_in(folder: TempDir, more: &str) -> Server {
    let zone = "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\ndnssec-policy = \"off\"\n\
        allow-transfer = [\"any\"]\nallow-update = [\"127.0.0.0/8\"]\n";
    Server::start_in(folder, STATE, &(policy("off", OFFLINE) + zone + more))
}

/// Runs `nomen ctl`, which must succeed; returns its output.
fn good(server: &Server, arguments: &[&str]) -> String {
    let output = server.ctl(arguments);
    assert!(output.status.success(), "{arguments:?}: {}\n{}", text(&output.stderr), server.log());
    text(&output.stdout)
}

/// Runs `nomen ctl`, which must be refused; returns the reason.
fn refused(server: &Server, arguments: &[&str]) -> String {
    let output = server.ctl(arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// Has keys generated, and writes the request for 40 days to `request.ksr`.
fn request(server: &Server) {
    eventually("the zone was looked at", server, || server.ctl(&["key", "list", "example"]).status.success());
    let said = good(server, &["key", "pregenerate", "example", "--for", "50d"]);
    assert!(said.contains("are generated; ZSKs are planned until"), "{said}");
    server.write("request.ksr", &good(server, &["key", "request", "example", "--for", "40d"]));
}

/// Signs the request with the KSK, to `response.skr`.
fn sign(server: &Server, options: &[&str]) {
    let words = ["key", "sign-request", "example", "request.ksr", "-K", "offline", "-o", "response.skr"];
    let output = run(server.folder.path(), &[&words, options].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn import(server: &Server) -> String {
    let path = server.path("response.skr");
    good(server, &["key", "import-response", "example", &path.display().to_string()])
}

/// The DNSKEY RRset with its signatures.
fn dnskeys(server: &Server) -> Vec<String> {
    let answer = server.query(&["example", "DNSKEY", "+short", "+dnssec"]);
    let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_response_signs_the_zone_also_after_a_crash() {
    let server = start();
    server.wait_for_log("its KSK is offline, and there is no signed key response", 1);
    eventually("the zone is answered unsigned", &server, || {
        server.query(&["www.example", "A", "+short"]).trim() == "192.0.2.80" && dnskeys(&server).is_empty()
    });
    assert!(refused(&server, &["key", "request", "example"]).contains("the zone has no ZSK"));
    request(&server);
    let again = good(&server, &["key", "pregenerate", "example", "--for", "50d"]);
    assert!(again.contains("no key is missing"), "{again}");
    assert!(
        refused(&server, &["key", "request", "example", "--for", "400d"]).contains("the last ZSK is to sign")
    );
    sign(&server, &[]);
    let said = import(&server);
    assert!(said.contains("the signed key response is accepted: 7 slots, from "), "{said}");
    wait_settled(&server, "example");
    verify(&server, "example");
    let list = good(&server, &["key", "list", "example"]);
    assert!(list.contains("the KSK is offline: slot of the signed key response since "), "{list}");
    assert!(good(&server, &["key", "timeline", "example"]).contains("signed key response ends"), "{list}");
    let ksk = keys(&server, "example").into_iter().find(|key| key["role"] == "KSK").expect("a KSK");
    let tag = ksk["tag"].to_string();
    let private = |folder: &str| {
        let files = fs::read_dir(server.path(folder)).expect("a folder");
        let names = files.map(|file| file.expect("a file").file_name().into_string().expect("text"));
        names.filter(|name| name.ends_with(&format!("+{:0>5}.private", tag))).count()
    };
    assert_eq!((private("offline"), private("state/keys")), (1, 0));
    assert!(refused(&server, &["key", "roll", "example", "--role", "zsk"]).contains("`offline-ksk`"));
    let before = dnskeys(&server);
    let kinds: Vec<usize> = ["257 ", "256 ", "DNSKEY "]
        .iter()
        .map(|kind| before.iter().filter(|line| line.starts_with(kind)).count())
        .collect();
    assert_eq!(kinds, [1, 1, 1], "{before:?}");
    let at = free_address();
    let server = start_in(server.kill(), &format!("[metrics]\nlisten = {}\nper-zone = true\n", written(at)));
    eventually("the zone is served again", &server, || dnskeys(&server) == before);
    eventually("the response is among the figures", &server, || {
        let page = http(at, "GET /metrics");
        let value =
            |name: &str| page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        let end = value("nomen_signing_response_expiry_timestamp_seconds");
        end.is_some_and(|end| end > 1e9)
            && end == value("nomen_zone_signing_response_expiry_timestamp_seconds{zone=\"example.\"}")
    });
    // A change is signed by the ZSK, and leaves the key sets as they are.
    good(&server, &["zone", "begin", "example"]);
    good(&server, &["zone", "set", "example", "new", "1", "A", "192.0.2.81"]);
    good(&server, &["zone", "commit", "example"]);
    eventually("the change is served", &server, || {
        server.query(&["new.example", "A", "+short"]).trim() == "192.0.2.81"
    });
    assert_eq!(dnskeys(&server), before);
    verify(&server, "example");
}

#[test]
fn each_slot_is_published_at_its_time() {
    let server = start();
    request(&server);
    // A slot lasts three seconds.
    sign(&server, &["--validity", "1h", "--refresh", "3597s", "--until", "2m"]);
    import(&server);
    wait_settled(&server, "example");
    let first = dnskeys(&server);
    eventually("another slot is published", &server, || {
        let now = dnskeys(&server);
        now.len() == first.len() && now != first
    });
    verify(&server, "example");
    server.wait_for_log("the signatures of the last signed key response expire at", 1);
}

#[test]
fn responses_that_validators_would_reject_are_refused() {
    let server = start();
    request(&server);
    sign(&server, &[]);
    let response = fs::read_to_string(server.path("response.skr")).expect("a response");
    let mut lines: Vec<&str> = response.lines().collect();
    let signature = lines.iter().position(|line| line.contains("\tDNSKEY 13 ")).expect("a signature");
    let damaged = lines[signature].replace(" 13 1 1 ", " 13 1 2 ");
    lines[signature] = &damaged;
    let path = server.path("response.skr").display().to_string();
    let import = ["key", "import-response", "example", &path];
    server.write("response.skr", &(lines.join("\n") + "\n"));
    let place = format!("the response is refused: line {}: the signature does not verify", signature + 1);
    let fault = refused(&server, &import);
    assert!(fault.contains(&place), "{fault}");
    server.write("response.skr", "no response\n");
    assert!(refused(&server, &import).contains("line 1: "));
    // Without the key that signs.
    let request = fs::read_to_string(server.path("request.ksr")).expect("a request");
    let other = run(server.folder.path(), &["key", "generate", "example", "--role", "zsk", "-K", "offline"]);
    assert!(other.status.success());
    let stem = text(&other.stdout);
    let record = fs::read_to_string(server.path(&format!("{}.key", stem.trim()))).expect("a key");
    let record = record.lines().last().expect("a record").replacen(" IN", " 1 IN", 1);
    let keys = request.lines().filter(|line| !line.starts_with(";;"));
    let request = keys.fold(request.clone(), |text, line| text.replace(line, &record));
    server.write("request.ksr", &request);
    sign(&server, &[]);
    let fault = refused(&server, &import);
    assert!(fault.contains("which is no key of this zone here"), "{fault}");
    assert!(dnskeys(&server).is_empty());
    assert_eq!(server.query(&["www.example", "A", "+short"]).trim(), "192.0.2.80");
}

/// The policy of BIND.
const BIND: &str = "dnssec-policy \"off\" {\n  offline-ksk yes;\n\
    keys { ksk lifetime unlimited algorithm 13; zsk lifetime P31D algorithm 13; };\n\
    dnskey-ttl 1; publish-safety 0; retire-safety 0; max-zone-ttl 1d; signatures-validity 14d;\n\
    signatures-refresh 5d; signatures-validity-dnskey 14d; zone-propagation-delay 0;\n\
    cdnskey yes; cds-digest-types { SHA-256; };\n};\n";

/// `cargo test -p nomen --test it dnssec_ksr -- --ignored` with dnssec-ksr in the PATH.
#[test]
#[ignore = "needs dnssec-ksr of BIND 9.20, which stable distributions lack"]
fn dnssec_ksr_signs_requests_and_has_its_own_signed() {
    let server = start();
    server.write("policy.conf", BIND);
    fs::create_dir(server.path("bind")).expect("made");
    let ksr = |folder: &str, arguments: &[&str]| {
        let common = ["-k", "off", "-l", "policy.conf", "-K", folder];
        let output = Command::new("dnssec-ksr")
            .args(common)
            .args(arguments)
            .current_dir(server.folder.path())
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    request(&server);
    let response = ksr("offline", &["-i", "now", "-e", "+40d", "-f", "request.ksr", "sign", "example"]);
    server.write("response.skr", &response);
    import(&server);
    wait_settled(&server, "example");
    verify(&server, "example");
    ksr("bind", &["-i", "now", "-e", "+40d", "keygen", "example"]);
    server.write("request.ksr", &ksr("bind", &["-i", "now", "-e", "+40d", "request", "example"]));
    sign(&server, &["--until", "40d"]);
    let signed = fs::read_to_string(server.path("response.skr")).expect("a response");
    assert!(signed.lines().filter(|line| line.contains("\tRRSIG\tDNSKEY 13 1 1 ")).count() >= 5, "{signed}");
}
