//! Zones whose signatures have ended, or will soon, and what is wrong with zones in service.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::metrics::http;
use crate::support::{APEX, Server, eventually, free_address, run, text, written};

const DAY: i64 = 86_400;

/// A signed zone with a signature that holds for thirty days and ends at this time.
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
    server.wait_for_log("ERROR zone example.: a signature ended 2 hours ago", 1);
    assert_eq!(server.ctl_json(&["status"])["signatures"], serde_json::json!({"expiring": 0, "expired": 1}));
    let figures = http(at, "GET /metrics");
    for line in [
        format!("nomen_zone_signature_expiry_timestamp_seconds{{zone=\"example.\"}} {end}"),
        "nomen_signed_zones{signatures=\"expired\"} 1".into(),
    ] {
        assert!(figures.lines().any(|l| l == line), "{line} is missing:\n{figures}");
    }
    // A new version with better ones is as good as any.
    server.write("example.zone", &signed(now() + 20 * DAY).replace("admin 1 ", "admin 2 "));
    server.reload();
    eventually("it is seen", &server, || state(&server, "signatures") == "valid");
}

#[test]
fn signatures_that_end_soon_are_warned_of() {
    let server = Server::start(&signed(now() + 2 * DAY + 600), "");
    eventually("it is seen", &server, || state(&server, "signatures") == "expiring");
    server.wait_for_log("WARN zone example.: a signature ends in 48 hours", 1);
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
        std::fs::write(folder.path().join("example.zone"), zone).expect("written");
        let output = run(folder.path(), &["zone", "check", "example", "example.zone"]);
        (output.status.code(), text(&output.stderr))
    };
    // One of them lasts.
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

#[test]
fn a_zone_with_many_nsec3_iterations_is_refused_unless_the_configuration_allows_it() {
    let hashed = "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom";
    let zone =
        format!("{APEX}@ NSEC3PARAM 1 0 1000 -\n{hashed} NSEC3 1 0 1000 - {hashed} SOA NS NSEC3PARAM\n");
    let at = free_address();
    let server = Server::start(&zone, &format!("[metrics]\nlisten = {}\n", written(at)));
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
