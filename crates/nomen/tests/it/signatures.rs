//! Zones whose signatures have expired, or will soon, and findings about zones in service.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;
use wire::NameBuf;
use wire::text::write_base32hex;

use crate::changes::{OPEN, STATE, add, answer, folder, socket, start};
use crate::metrics::http;
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, message, run, text, written};

const DAY: i64 = 86_400;

/// Returns a signed zone with a signature that is valid for thirty days and ends at this time.
pub(crate) fn signed(end: i64) -> String {
    let sig = |name: &str, covered: &str, end: i64| {
        format!("{name} RRSIG {covered} 13 1 60 {end} {} 1 example. AAAA\n", end - 30 * DAY)
    };
    let far = now() + 25 * DAY;
    format!(
        "{APEX}@ NSEC ns1 SOA NS RRSIG NSEC\n{}{}{}",
        sig("@", "SOA", far),
        sig("@", "NS", end),
        sig("@", "NSEC", far)
    )
}

pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_secs()).expect("a number")
}

fn state(server: &Server, key: &str) -> serde_json::Value {
    server.ctl_json(&["zone", "status", "example"])[key].clone()
}

#[test]
fn expired_signatures_were_served_in_silence() {
    let at = free_address();
    let end = now() - 7200;
    let server =
        Server::start(&signed(end), &format!("[metrics]\nlisten = {}\nper-zone = true\n", written(at)));
    eventually("it is seen", &server, || state(&server, "signatures") == "expired");
    assert_eq!(state(&server, "signatures_end"), end);
    server.wait_for_log("ERROR zone example.: a signature expired 2 hours ago", 1);
    assert_eq!(server.ctl_json(&["status"])["signatures"], serde_json::json!({"expiring": 0, "expired": 1}));
    let figures = http(at, "GET /metrics");
    for line in [
        format!("nomen_zone_signature_expiry_timestamp_seconds{{zone=\"example.\"}} {end}"),
        "nomen_signed_zones{signatures=\"expired\"} 1".into(),
    ] {
        assert!(figures.lines().any(|l| l == line), "{line} is missing:\n{figures}");
    }
    // A new version with better signatures is as good as any.
    server.write("example.zone", &signed(now() + 20 * DAY).replace("admin 1 ", "admin 2 "));
    server.reload();
    eventually("it is seen", &server, || state(&server, "signatures") == "valid");
}

#[test]
fn signatures_that_end_soon_are_warned_of() {
    let server = Server::start(&signed(now() + 2 * DAY + 600), "");
    eventually("it is seen", &server, || state(&server, "signatures") == "expiring");
    server.wait_for_log("WARN zone example.: a signature expires in 48 hours", 1);
}

#[test]
fn what_is_wrong_with_a_zone_in_service_was_only_known_to_check() {
    let server = Server::start(&format!("{APEX}mail MX 10 nowhere\n"), "");
    let expected = "mail.example. MX: nowhere.example. has no address records in this zone";
    eventually("it is found", &server, || state(&server, "findings")[0]["message"] == expected);
    let status = text(&server.ctl(&["zone", "status", "example"]).stdout);
    assert!(
        status.lines().any(|line| line.starts_with("findings") && line.contains("nowhere.example.")),
        "{status}"
    );
}

#[test]
fn a_check_without_dnssec_passed_a_zone_whose_signatures_have_all_expired() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |zone: &str| {
        fs::write(folder.path().join("example.zone"), zone).expect("written");
        let output = run(folder.path(), &["zone", "check", "example", "example.zone"]);
        (output.status.code(), text(&output.stderr))
    };
    // One of them is still valid.
    let some = signed(now() - 7200);
    let (_, said) = check(&some);
    assert!(said.contains("1 of 3 signatures have expired: --dnssec shows which"), "{said}");
    let ended = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [name, "RRSIG", covered, a, b, c, _, _, ref rest @ ..] => {
            let (end, begin) = (now() - 3600, now() - 30 * DAY);
            format!("{name} RRSIG {covered} {a} {b} {c} {end} {begin} {}\n", rest.join(" "))
        }
        _ => format!("{line}\n"),
    };
    let (code, said) = check(&some.lines().map(ended).collect::<String>());
    assert_eq!(code, Some(1), "{said}");
    let message = "all 3 signatures of the zone have expired, the last on ";
    assert!(said.contains(message) && said.contains("sign it again"), "{said}");
    let (_, said) = check(&signed(now() + 20 * DAY));
    assert!(!said.contains("expired"), "{said}");
}

/// Returns a zone with an NSEC3 chain of one record with this many iterations.
pub(crate) fn hashed(apex: &str, iterations: u16) -> String {
    let apex: NameBuf = apex.parse().expect("a name");
    let mut owner = String::new();
    let hash = dnssec::nsec3::hash(apex.as_name().to_lower().as_lower(), &[], iterations);
    write_base32hex(&hash, &mut owner).expect("a String takes everything");
    let params = format!("1 0 {iterations} -");
    format!("{APEX}@ NSEC3PARAM {params}\n{owner} NSEC3 {params} {owner} SOA NS NSEC3PARAM\n")
}

#[test]
fn a_zone_with_many_nsec3_iterations_is_refused_unless_the_configuration_allows_it() {
    let at = free_address();
    let server = Server::start(&hashed("example.", 1000), &format!("[metrics]\nlisten = {}\n", written(at)));
    assert!(server.query(&["example", "SOA"]).contains("status: SERVFAIL"));
    let status = server.ctl_json(&["zone", "status", "example"]).to_string();
    assert!(status.contains("1000 iterations, and `nsec3-max-iterations` is 500"), "{status}");
    let check = run(server.folder.path(), &["check", "nomen.toml"]);
    assert_eq!(check.status.code(), Some(1));
    assert!(text(&check.stderr).contains("nsec3-max-iterations"), "{}", text(&check.stderr));
    server.reconfigure("directory = \".\"\n", "directory = \".\"\nnsec3-max-iterations = 1000\n");
    server.reload();
    assert!(server.query(&["example", "SOA"]).contains("status: NOERROR"));
    let figures = http(at, "GET /metrics");
    assert!(figures.contains("nomen_zone_nsec3_iterations{zone=\"example.\"} 1000"), "{figures}");
    assert!(figures.contains("nomen_nsec3_refused_total 0"));
}

#[test]
fn a_journal_with_many_nsec3_iterations_was_served() {
    let more = format!("{OPEN}nsec3-max-iterations = 1000\n");
    let nomen = start(folder(APEX), &more);
    assert_eq!(add(nomen.address, "example", "host.example"), Some(0));
    nomen.write("example.zone", &hashed("example.", 1000).replace("admin 1 ", "admin 10 "));
    nomen.ctl_json(&["zone", "reload", "example", "--force"]);
    assert_eq!(nomen.ctl_json(&["zone", "status", "example"])["serial"], 10, "{}", nomen.log());
    let nomen = start(nomen.stop(), OPEN);
    assert!(nomen.query(&["example", "SOA"]).contains("status: SERVFAIL"));
    let status = nomen.ctl_json(&["zone", "status", "example"]).to_string();
    assert!(status.contains("1000 iterations, and `nsec3-max-iterations` is 500"), "{status}");
    // Nothing is lost.
    nomen.reconfigure(OPEN, &more);
    nomen.reload();
    assert_eq!(nomen.ctl_json(&["zone", "status", "example"])["serial"], 10, "{}", nomen.log());
}

#[test]
fn a_version_of_a_secondary_with_many_nsec3_iterations_was_served_from_disk() {
    let primary =
        Server::start(&hashed("example.", 1000), "nsec3-max-iterations = 1000\nallow-transfer = [\"any\"]\n");
    let zone = format!("[[zone]]\nname = \"example\"\nprimaries = [{}]\n", written(primary.address));
    let more = format!("{zone}nsec3-max-iterations = 1000\n");
    let secondary = |folder: TempDir, zone: &str| {
        // The template's folder has no zone file.
        Server::start_in(folder, STATE, zone)
    };
    let is_served = |nomen: &Server| nomen.query(&["example", "SOA"]).contains("status: NOERROR");
    let nomen = secondary(tempfile::tempdir().expect("a folder"), &more);
    eventually("it is taken", &nomen, || is_served(&nomen));
    primary.stop();
    let nomen = secondary(nomen.stop(), &zone);
    nomen.wait_for_log("version 1 in the state folder does not go into service: refused: NSEC3 has 1000", 1);
    assert!(nomen.query(&["example", "SOA"]).contains("status: SERVFAIL"));
    let nomen = secondary(nomen.stop(), &more);
    assert!(is_served(&nomen), "it is still there: {}", nomen.log());
}

/// Clients that query non-existent names of a zone with DO, each again as soon as it has an answer.
struct Flood {
    ended: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn start(server: SocketAddr, clients: usize) -> Self {
        let (ended, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let client = |client: usize| {
            let (ended, answered) = (Arc::clone(&ended), Arc::clone(&answered));
            std::thread::spawn(move || {
                let socket = socket(server);
                for n in 0_u16.. {
                    let mut query = message(n, &format!("no-{n}-{client}.example"), 1);
                    query[11] = 1;
                    query.extend([0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
                    let rcode = answer(&socket, &query).expect("an answer");
                    assert!(matches!(rcode, 2 | 3), "{rcode}");
                    answered.fetch_add(1, Ordering::SeqCst);
                    if ended.load(Ordering::SeqCst) || n == u16::MAX {
                        return;
                    }
                }
            })
        };
        let clients = (0..clients).map(client).collect();
        Flood { ended, answered, clients }
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }
}

#[test]
fn a_flood_for_a_zone_with_many_iterations_left_no_answers_for_the_clients_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    // Negative answers have proofs if the SOA is signed.
    let (begin, end) = (now() - DAY, now() + 25 * DAY);
    let signature = format!("@ RRSIG SOA 13 1 60 {end} {begin} 1 example. AAAA\n");
    fs::write(folder.path().join("example.zone"), hashed("example.", u16::MAX) + &signature)
        .expect("written");
    fs::write(folder.path().join("other.zone"), APEX).expect("written");
    let at = free_address();
    let metrics = format!("[metrics]\nlisten = {}\n", written(at));
    let server = Server::start_in(folder, "", &format!("nsec3-max-iterations = 65535\n{metrics}"));
    let flood = Flood::start(server.address, 64);
    eventually("the flood is there", &server, || flood.answered() > 64);
    let (before, until) = (flood.answered(), Instant::now() + TEST_TIMEOUT);
    let client = socket(server.address);
    // Without a limit each of these waits for dozens of hashes of 65,536 rounds.
    for n in 0..350 {
        assert_eq!(answer(&client, &message(n, "ns1.other", 1)), Some(0));
        assert!(Instant::now() < until, "{n} answers in {TEST_TIMEOUT:?}");
    }
    assert!(flood.answered() > before, "it goes on meanwhile");
    let figures = http(at, "GET /metrics");
    assert!(!figures.contains("nomen_nsec3_refused_total 0"), "{figures}");
    flood.ended.store(true, Ordering::SeqCst);
    flood.clients.into_iter().for_each(|client| client.join().expect("each has its answers"));
}
