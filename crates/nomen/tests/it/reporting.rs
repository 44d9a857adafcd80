//! Error reports to the agents of zones' servers (RFC 9567), from one nomen to others: a small DNS in a
//! network namespace.
//!
//! ```text
//! .             signed, 10.53.0.1
//!   example.    signed, 10.53.0.2
//!   broken.     signed, with expired signatures, 10.53.0.4, whose server names agent.reports.
//!   lost.       at the same server, which could not load it
//!   reports.    not signed, 10.53.0.5: the agent's zone
//! ```

use std::fs;
use std::net::SocketAddr;

use testkit::Chain;

use crate::iterate::{authority, in_a_network, inside, ip};
use crate::metrics::http;
use crate::support::{Server, eventually, free_address, written};
use crate::validate::{ds, resolver, says, signed};

const REPORTS: &str = "$TTL 3600\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 10.53.0.5\n\
                       *._er.agent TXT \"thank you\"\n";

/// Starts an authoritative server that names the agent in answers from its zones, and logs its queries.
fn naming_agent(last: u8, zones: &[(&str, &str)], more: &str) -> Server {
    ip(&format!("address add 10.53.0.{last}/32 dev lo"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut blocks = String::new();
    for (name, zone) in zones {
        fs::write(folder.path().join(format!("{name}.txt")), zone).expect("written");
        blocks += &format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}.txt\"\n");
    }
    let keys = "report-channel = \"agent.reports\"\n";
    let at = SocketAddr::from(([10, 53, 0, last], 53));
    Server::start_at(at, folder, keys, &format!("{blocks}[log]\nqueries = true\n{more}"))
}

fn internet() -> [Server; 4] {
    let mut root = vec![". 3600 NS a.root.".to_owned(), "a.root. 3600 A 10.53.0.1".into()];
    for (zone, last) in [("example.", 2), ("broken.", 4), ("lost.", 4), ("reports.", 5)] {
        root.extend([format!("{zone} 3600 NS ns.{zone}"), format!("ns.{zone} 3600 A 10.53.0.{last}")]);
    }
    root.extend([ds("example."), ds("broken.")]);
    let root: Vec<&str> = root.iter().map(String::as_str).collect();
    let example =
        ["example. 3600 NS ns.example.", "ns.example. 3600 A 10.53.0.2", "www.example. 3600 A 192.0.2.1"];
    let broken =
        ["broken. 3600 NS ns.broken.", "ns.broken. 3600 A 10.53.0.4", "www.broken. 3600 A 192.0.2.4"];
    let lost = "[[zone]]\nname = \"lost\"\nfile = \"nosuch.txt\"\n";
    [
        authority(1, &[(".", &signed(".", &root, &Chain::Nsec, 24))]),
        authority(2, &[("example", &signed("example.", &example, &Chain::Nsec, 24))]),
        naming_agent(4, &[("broken", &signed("broken.", &broken, &Chain::Nsec, -24))], lost),
        naming_agent(5, &[("reports", REPORTS)], ""),
    ]
}

/// Returns the number of reports that the agent has received: TXT queries.
fn come(agent: &Server) -> usize {
    agent.log().lines().filter(|line| line.contains("type=\"TXT\"")).count()
}

#[test]
fn failures_are_reported_once_to_whom_the_servers_name() {
    in_a_network("reporting::inside_failures_are_reported_once_to_whom_the_servers_name");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_failures_are_reported_once_to_whom_the_servers_name() {
    inside();
    let [_root, _example, broken, agent] = internet();
    let named = "; REPORT-CHANNEL: agent.reports.";
    assert!(broken.query(&["www.broken", "+norec"]).contains(named));
    assert!(broken.query(&["nosuch.broken", "+norec"]).contains(named));
    assert!(broken.query(&["www.lost", "+norec"]).contains(named), "it cannot be loaded");
    for without in [&["www.broken", "+norec", "+noedns"][..], &["www.example", "+norec"]] {
        assert!(!broken.query(without).contains("REPORT-CHANNEL"), "{without:?}");
    }
    assert!(!agent.query(&["ns.reports", "+norec"]).contains("REPORT-CHANNEL"), "the agent is in the zone");

    // Off by default.
    let silent = resolver(&ds("."), "");
    assert_eq!(says(&silent, &["www.broken"]), "SERVFAIL EDE 7");

    let at = free_address();
    let keys = format!("error-reporting = true\n[metrics]\nlisten = {}\n", written(at));
    let server = resolver(&ds("."), &keys);
    let suppressed = |reason: &str| {
        let figures = http(at, "GET /metrics");
        let name = format!("nomen_error_reports_suppressed_total{{reason=\"{reason}\"}} ");
        let line = figures.lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned));
        line.unwrap_or_else(|| panic!("{name}: {figures}"))
    };
    assert_eq!(says(&server, &["www.example", "+dnssec"]), "NOERROR ad");
    assert_eq!(says(&server, &["www.broken"]), "SERVFAIL EDE 7");
    let report = "name=_er.1.www.broken.7._er.agent.reports. class=\"IN\" type=\"TXT\"";
    let lower = |server: &Server| server.log().to_ascii_lowercase();
    let report = report.to_ascii_lowercase();
    eventually("the report has come", &agent, || lower(&agent).contains(&report));
    // Queried again, it fails as before, and the repeated report is suppressed.
    for _ in 0..3 {
        assert!(server.ctl(&["cache", "flush", "broken", "--tree"]).status.success());
        assert_eq!(says(&server, &["www.broken"]), "SERVFAIL EDE 7");
    }
    eventually("it was not reported again", &server, || suppressed("repeated") == "3");
    // A failure at all servers.
    assert_eq!(says(&server, &["www.lost"]), "SERVFAIL EDE 22");
    let lost = "name=_er.1.www.lost.22._er.agent.reports. class=\"in\" type=\"txt\"";
    eventually("that has come, too", &agent, || lower(&agent).contains(lost));
    assert_eq!(server.counter("error.reports"), 2);
    // By now the log has both, and everything before them.
    assert_eq!((come(&agent), lower(&agent).matches(&report).count()), (2, 1), "{}", agent.log());
    assert_eq!(silent.counter("error.reports"), 0);
    let explained = server.ctl(&["explain", "www.broken", "AAAA"]);
    let explained = crate::support::text(&explained.stdout);
    assert!(explained.contains("announce the agent domain agent.reports."), "{explained}");
}
