//! The conventions of Prometheus and OpenMetrics, checked for every series that the program can print, and
//! everything that names series: docs/METRICS.md, which is generated here, the dashboard and the alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use control::metrics::{AllFigures, Figures, Format, ListenerReport, render};
use serving::frontend::ListenerTotals;

use crate::metrics::http_with;
use crate::signatures::{hashed, now, signed};
use crate::support::{APEX, Server, free_address, written};

/// Environment variable: rewrite the page instead of comparing it.
const UPDATE: &str = "NOMEN_UPDATE_REFERENCE";
/// The header that requests OpenMetrics.
const OPEN: &str = "Accept: application/openmetrics-text; version=1.0.0\r\n";

/// One sample of a series: its full name, its labels in order, its value.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// A printed metric family.
#[derive(Debug, Clone, Default)]
struct Family {
    /// Its name in HELP and TYPE.
    name: String,
    help: String,
    kind: String,
    unit: Option<String>,
    samples: Vec<Sample>,
}

impl Family {
    /// Returns the suffixes that the names of its samples may have after the family's name.
    fn suffixes(&self, format: Format) -> &'static [&'static str] {
        match (self.kind.as_str(), format) {
            ("counter", Format::OpenMetrics) => &["_total"],
            ("info", Format::OpenMetrics) => &["_info"],
            ("histogram", _) => &["_bucket", "_sum", "_count"],
            _ => &[""],
        }
    }

    /// Returns the name in a Prometheus query; of a histogram, without suffixes.
    fn series(&self) -> String {
        if self.kind == "histogram" { self.name.clone() } else { self.samples[0].name.clone() }
    }

    fn labels(&self) -> Vec<&str> {
        let labels = self.samples[0].labels.iter().map(|(label, _)| label.as_str());
        labels.filter(|&label| label != "le").collect()
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (name, mut rest) = line.split_at(line.find(['{', ' '])?);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.trim_start_matches(',').split_once("=\"")?;
            let (mut value, mut escaped, mut end) = (String::new(), false, None);
            for (at, c) in after.char_indices() {
                match (escaped, c) {
                    (false, '\\') => escaped = true,
                    (false, '"') => {
                        end = Some(at + 1);
                        break;
                    }
                    (true, 'n') => (escaped, _) = (false, value.push('\n')),
                    (_, c) => (escaped, _) = (false, value.push(c)),
                }
            }
            labels.push((label.to_owned(), value));
            rest = &after[end?..];
        }
        rest = &rest[1..];
    }
    Some(Sample { name: name.into(), labels, value: rest.strip_prefix(' ')?.parse().ok()? })
}

/// Parses the families of a text, and returns them with the faults of its lines.
fn read(text: &str, format: Format) -> (Vec<Family>, Vec<String>) {
    let (mut families, mut faults) = (Vec::<Family>::new(), Vec::new());
    let lines: Vec<&str> = text.lines().collect();
    let ends = lines.iter().position(|line| *line == "# EOF").map(|at| at + 1);
    if ends != (format == Format::OpenMetrics).then_some(lines.len()) || !text.ends_with('\n') {
        faults.push("the end is wrong".into());
    }
    for line in lines.into_iter().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), Some(help)) => {
                families.push(Family { name: name.into(), help: help.into(), ..Family::default() });
            }
            (Some("#"), Some(what @ ("TYPE" | "UNIT")), Some(name), Some(word)) => {
                match families.last_mut() {
                    Some(family) if family.name == name && family.samples.is_empty() => match what {
                        "TYPE" => family.kind = word.into(),
                        _ => family.unit = Some(word.into()),
                    },
                    _ => faults.push(format!("out of place: {line}")),
                }
            }
            _ => match (sample(line), families.last_mut()) {
                (Some(one), Some(family)) => {
                    let suffix = one.name.strip_prefix(&family.name);
                    if suffix.is_none_or(|suffix| !family.suffixes(format).contains(&suffix)) {
                        faults.push(format!("a series of another family: {line}"));
                    }
                    family.samples.push(one);
                }
                _ => faults.push(format!("cannot be read: {line}")),
            },
        }
    }
    (families, faults)
}

/// Words of units that are not base units, and of names reserved for others.
const NO_UNITS: [&str; 14] = [
    "ms",
    "us",
    "ns",
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "kilobytes",
    "kib",
    "octets",
    "percent",
    "bits",
];

/// Returns the faults of one family.
fn family_faults(family: &Family, format: Format) -> Vec<String> {
    let mut faults = Vec::new();
    let mut hold = |so: bool, what: &str| {
        if !so {
            faults.push(format!("{}: {what}", family.name));
        }
    };
    let Family { name, help, kind, unit, samples } = family;
    let snake = |text: &str| {
        text.split('_').all(|word| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        })
    };
    hold(snake(name) && ["nomen_", "process_"].iter().any(|ours| name.starts_with(ours)), "name");
    hold(
        help.split(' ').count() > 1 && help.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit()),
        "HELP",
    );
    // Repeating the name's words is no explanation.
    let own = name.split_once('_').map_or("", |(_, own)| own);
    let only_named = own.contains('_') && help.contains(own);
    hold(!help.ends_with('.') && !only_named, "HELP explains nothing");
    hold(["counter", "gauge", "histogram", "info"].contains(&kind.as_str()), "TYPE");
    hold(!samples.is_empty(), "no series");
    let Some(first) = samples.first() else { return faults };
    let total = first.name.ends_with("_total");
    hold(total == (kind == "counter"), "only counters end in _total");
    let base = name.trim_end_matches("_total");
    let words: Vec<&str> = base.split('_').collect();
    hold(!words.iter().any(|word| NO_UNITS.contains(word)), "not a base unit");
    let last = words.last().copied().unwrap_or_default();
    let unit_wanted = ["seconds", "bytes"].into_iter().find(|unit| words.contains(unit));
    hold(unit_wanted.is_none_or(|unit| unit == last), "the unit comes last");
    hold(words.contains(&"time") <= (last == "seconds"), "times are in seconds");
    let wanted = unit_wanted.filter(|_| format == Format::OpenMetrics);
    hold(unit.as_deref() == wanted, "UNIT");
    hold(
        kind == "histogram" || ["_sum", "_count", "_bucket"].iter().all(|end| !name.ends_with(end)),
        "suffix",
    );
    for sample in samples {
        let labels: Vec<&str> = sample.labels.iter().map(|(label, _)| label.as_str()).collect();
        hold(labels.iter().all(|label| snake(label) && !["job", "instance"].contains(label)), "label");
        let own: Vec<&str> =
            labels.into_iter().filter(|&label| label != "le" || kind != "histogram").collect();
        hold(own == family.labels(), "labels of one family differ");
        hold(sample.value >= 0.0, "less than nothing");
    }
    if kind == "histogram" {
        for buckets in
            samples.chunk_by(|a, b| a.name == b.name).filter(|all| all[0].name.ends_with("_bucket"))
        {
            hold(buckets.is_sorted_by(|a, b| a.value <= b.value), "buckets go down");
            hold(
                buckets.last().is_some_and(|last| last.labels.iter().any(|(_, le)| le == "+Inf")),
                "no +Inf",
            );
        }
    }
    faults
}

/// Returns the faults of a whole text.
fn faults(text: &str, format: Format) -> Vec<String> {
    let (families, mut faults) = read(text, format);
    faults.extend(families.iter().flat_map(|family| family_faults(family, format)));
    let (mut names, mut helps, mut series) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for family in &families {
        if !names.insert(&family.name) || !helps.insert(&family.help) {
            faults.push(format!("{}: its name or HELP was there before", family.name));
        }
        for sample in &family.samples {
            if !series.insert((&sample.name, &sample.labels)) {
                faults.push(format!("twice: {sample:?}"));
            }
        }
    }
    faults
}

/// Starts a server with all features on, and returns it with the address of its metrics.
fn everything_on() -> (Server, SocketAddr) {
    let [at, closed, secure, web, clear, api] = std::array::from_fn(|_| free_address());
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("members")).expect("made");
    let catalog =
        "$TTL 0\n@ SOA . . 1 3600 600 86400 60\n@ NS invalid.\nversion TXT \"2\"\na.zones PTR a.test.\n";
    let files = [
        ("example.zone", signed(now() + 86_400)),
        ("updated.zone", APEX.into()),
        ("own.zone", APEX.into()),
        ("cat", catalog.into()),
        ("ads.txt", "ads.test\n".into()),
        ("rpz", format!("{APEX}bad.test CNAME .\n")),
        ("members/a.test", APEX.into()),
        // So many iterations that the zone has a series of its own.
        ("hashed.zone", hashed("hashed.test.", 150)),
    ];
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).expect("written"));
    let more = format!(
        "[metrics]\nlisten = {}\nper-zone = true\n[api]\nlisten = [{api}]\n\
         [database]\nurl = \"postgresql://nomen@127.0.0.1:1/nomen\"\n\
         [[listen]]\naddr = [{secure}]\nproto = [\"tls\"]\n\
         [[listen]]\naddr = [{web}]\nproto = [\"https\", \"quic\"]\n\
         [[listen]]\naddr = [{clear}]\nproto = [\"http\"]\n\
         [template.members]\nfile = \"members/{{zone}}\"\n\
         [[zone]]\nname = \"cat\"\nfile = \"cat\"\ncatalog-template = \"members\"\n\
         [[zone]]\nname = \"taken.test\"\nprimaries = [{closed}]\nnotify = [{closed}]\n\
         [[zone]]\nname = \"updated\"\nfile = \"updated.zone\"\nallow-update = [\"127.0.0.0/8\"]\n\
         [[zone]]\nname = \"hashed.test\"\nfile = \"hashed.zone\"\n\
         [[zone]]\nname = \"own.test\"\nfile = \"own.zone\"\ndnssec-policy = \"default\"\n\
         ds-push = [\"127.0.0.1@1 key:push\"]\ndelegation-updates = [\"cds\"]\n\
         [[tsig-key]]\nname = \"push\"\nsecret = \"c2VjcmV0\"\n[resolver]\n[[resolver.forward]]\nservers = [{closed}, \"127.0.0.1@1#opportunistic\"]\n[dnstap]\nfile = \"tap\"\n\
         [dnssec-policy.off]\nsingle-key = false\noffline-ksk = true\n\
         [[zone]]\nname = \"off.test\"\nfile = \"own.zone\"\ndnssec-policy = \"off\"\n\
         [dnssec-policy.on]\nonline = \"compact\"\n\
         [[zone]]\nname = \"on.test\"\nfile = \"own.zone\"\ndnssec-policy = \"on\"\n\
         [[zone]]\nname = \"rpz.test\"\nfile = \"rpz\"\n[[policy.zone]]\nname = \"rpz.test\"\n\
         [[policy.list]]\nname = \"ads\"\nfile = \"ads.txt\"\n\
         [[policy.list]]\nname = \"remote\"\nurl = \"http://{closed_url}/\"\n\
         [[policy.group]]\nname = \"guests\"\nfrom = [\"192.0.2.0/24\"]\nqueries-per-second = 20\n",
        written(at),
        api = written(api),
        secure = written(secure),
        web = written(web),
        clear = written(clear),
        closed = written(closed),
        closed_url = closed
    );
    let server = Server::start_in(folder, "state-dir = \"state\"\nimage-min-records = 1\n", &more);
    server.reload();
    for words in [["example", "SOA", "+norec"], ["example", "SOA", "+tcp"], ["version.bind", "TXT", "CH"]] {
        server.query(&words);
    }
    crate::support::eventually("signatures are looked at", &server, || {
        let figures = scraped(at, "");
        let is_there = |name| figures.contains(name);
        is_there("nomen_zone_signature_expiry_timestamp_seconds")
            && is_there("nomen_signing_expiry_timestamp_seconds")
            && is_there("nomen_signing_response_expiry_timestamp_seconds")
    });
    (server, at)
}

/// Returns the body of a scrape with this Accept header; its type must be the requested one.
fn scraped(at: SocketAddr, accept: &str) -> String {
    let answer = http_with(at, "GET /metrics", accept);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let format = if accept == OPEN { Format::OpenMetrics } else { Format::Prometheus };
    assert!(head.contains(&format!("content-type: {}\r\n", format.media_type())), "{head}");
    body.to_owned()
}

/// Returns the metrics of AF_XDP, which itself needs privileges and a network card.
fn of_xdp(format: Format) -> String {
    let totals = net::Totals::default();
    let front = ListenerTotals { local: free_address(), carrier: "xdp", totals };
    let all: [Box<dyn Figures>; 1] = [Box::new(ListenerReport(vec![front]))];
    render(&AllFigures::from(all), format).expect("printed")
}

/// Returns every family that the program can print.
fn every_family(at: SocketAddr) -> Vec<Family> {
    let mut all = read(&scraped(at, ""), Format::Prometheus).0;
    let more = read(&of_xdp(Format::Prometheus), Format::Prometheus).0;
    let known: BTreeSet<String> = all.iter().map(|family| family.name.clone()).collect();
    let last = all.iter().rposition(|family| family.name.starts_with("nomen_net_")).expect("listeners");
    let more = more.into_iter().filter(|family| !known.contains(&family.name));
    all.splice(last + 1..last + 1, more);
    all
}

#[test]
fn every_series_keeps_the_conventions_in_both_formats() {
    let (server, at) = everything_on();
    for (accept, format) in [("", Format::Prometheus), (OPEN, Format::OpenMetrics)] {
        for text in [scraped(at, accept), of_xdp(format)] {
            assert_eq!(faults(&text, format), Vec::<String>::new(), "{text}\n{}", server.log());
        }
    }
    let series = |accept, format| -> BTreeSet<String> {
        let families = read(&scraped(at, accept), format).0;
        families
            .iter()
            .flat_map(|family| &family.samples)
            .map(|one| format!("{} {:?}", one.name, one.labels))
            .collect()
    };
    let (plain, open) = (series("", Format::Prometheus), series(OPEN, Format::OpenMetrics));
    // The formats write bucket bounds differently.
    let without_bounds = |all: &BTreeSet<String>| -> BTreeSet<String> {
        all.iter().filter(|series| !series.contains("\"le\"")).cloned().collect()
    };
    assert_eq!(without_bounds(&plain), without_bounds(&open));
    assert_eq!(plain.len(), open.len());
}

#[test]
fn breaches_of_the_conventions_are_found() {
    let head = |name: &str, kind: &str, help: &str| format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
    let good = format!("{}nomen_a_total{{b=\"c\"}} 1\n", head("nomen_a_total", "counter", "Things counted"));
    assert_eq!(faults(&good, Format::Prometheus), Vec::<String>::new());
    for bad in [
        good.replace("Things counted", "Things"),
        good.replace("Things counted", "Things counted."),
        good.replace("Things counted", "Counter a_total of things"),
        good.replace("nomen_a", "nomen_a_ms"),
        good.replace("nomen_a", "nomen_bytes_a"),
        good.replace("nomen_a", "nomen_A"),
        good.replace("nomen_a", "other_a"),
        good.replace("_total", ""),
        good.replace("counter", "gauge"),
        good.replace("b=", "le=").replace("counter", "histogram"),
        good.replace("b=", "B="),
        good.replace("} 1", "} -1"),
        good.replace("} 1", "} "),
        good.replace("} 1", "} 1\nnomen_a_total{d=\"c\"} 1"),
        good.replace("} 1", "} 1\nnomen_a_total{b=\"c\"} 2"),
        good.replace("} 1", "} 1\n# EOF"),
        good.trim_end().to_owned(),
        good.clone() + &head("nomen_d", "gauge", "Things there"),
        good.clone() + &head("nomen_d", "gauge", "Things counted") + "nomen_d 1\n",
        good.clone() + "nomen_d 1\n",
    ] {
        assert!(!faults(&bad, Format::Prometheus).is_empty(), "{bad}");
    }
    assert!(!faults(&good, Format::OpenMetrics).is_empty());
}

#[test]
fn what_is_off_has_no_series() {
    let at = free_address();
    let _server = Server::start(APEX, &format!("[metrics]\nlisten = {}\n", written(at)));
    let (families, _) = read(&scraped(at, ""), Format::Prometheus);
    let off =
        ["cache", "recursion", "forward", "upstream", "secondary", "notify", "updates", "journal", "image"];
    let more = [
        "api_",
        "database",
        "catalog_members",
        "zone_serial",
        "zone_state",
        "zone_queries",
        "net_xdp",
        "last_reload",
    ];
    for name in off.iter().chain(&more) {
        let prefix = format!("nomen_{name}");
        let found = families.iter().find(|family| family.name.starts_with(&prefix));
        assert!(found.is_none(), "{found:?}");
    }
    let tcp = families.iter().find(|family| family.name == "nomen_net_tcp_accepted_total").expect("of TCP");
    assert!(
        tcp.samples.iter().all(|one| one.labels.contains(&("transport".into(), "tcp".into()))),
        "{tcp:?}"
    );
}

/// Headings of the page, each with when its series exist, and the beginnings of their names after `nomen_`.
const PARTS: [(&str, &str, &[&str]); 17] = [
    (
        "Queries and replies",
        "Always.",
        &[
            "quer",
            "replies",
            "servfail",
            "response",
            "latency",
            "truncated",
            "access",
            "zone_refused",
            "zone_chains_cut",
            "cookies",
            "rate_limited",
            "limits_top",
            "unanswered",
            "deferred",
            "dnssec_ok",
            "nsec3_",
        ],
    ),
    ("dnstap", "With `[dnstap]`; see [LOGGING.md](LOGGING.md).", &["dnstap_"]),
    (
        "Listeners",
        "Always; `tcp_` for TCP, TLS and HTTPS alone, `tls_`, `https_`, `odoh_`, `quic_`, certificates and `acme_` \
         for [encrypted transports](ENCRYPTED-DNS.md) alone, `xdp_` for \
         [AF_XDP](AF_XDP.md) alone.",
        &["net_", "tcp_", "certificate_", "acme_"],
    ),
    (
        "Zones",
        "Always; those of the last reload after the first one.",
        &[
            "zones",
            "signed_zones",
            "zone_records",
            "zone_loads_refused",
            "zone_nsec3",
            "zone_memory",
            "catalog_memory",
            "last_reload",
            "background_",
        ],
    ),
    ("Each zone", "With `per-zone` in `[metrics]`: at most eleven series for each zone.", &["zone_"]),
    ("Images of zones", "With a state folder and `images`.", &["image_"]),
    ("Catalog zones", "Where there are any; see [CATALOGS.md](CATALOGS.md).", &["catalog_"]),
    (
        "Transfers to other servers",
        "Always; see [TRANSFERS.md](TRANSFERS.md).",
        &[
            "transfers_sent",
            "transfers_unchanged",
            "transfers_broken_off",
            "transfers_evicted",
            "transfers_refused",
            "transfers_in_flight",
            "differences_",
        ],
    ),
    (
        "Zones from primaries, and NOTIFY",
        "Where a zone has `primaries` or `notify`; see [TRANSFERS.md](TRANSFERS.md).",
        &["secondary_", "transfers_received", "zones_expired", "notify_"],
    ),
    (
        "Dynamic updates",
        "With a state folder; see [UPDATES.md](UPDATES.md).",
        &["updates", "journal_", "zone_file_"],
    ),
    ("HTTP API", "With `[api]`; see [API.md](API.md).", &["api_"]),
    ("The database of zones", "With `[database]`; see [DATABASE.md](DATABASE.md).", &["database_"]),
    (
        "Zones that are signed here",
        "Where a zone has a `dnssec-policy`; see [SIGNING.md](SIGNING.md).",
        &["signing_"],
    ),
    (
        "Delegations of zones here",
        "Where a zone has `delegation-updates`; see [DELEGATIONS.md](DELEGATIONS.md).",
        &["delegation_"],
    ),
    (
        "Recursive service",
        "With `[resolver]`; see [RESOLVING.md](RESOLVING.md).",
        &[
            "cache_",
            "recursion_",
            "forward_",
            "authoritative_",
            "upstream_",
            "validation_",
            "trust_anchor",
            "local_root",
            "error_reports",
        ],
    ),
    (
        "Policy",
        "With `[[policy.zone]]` or `[[policy.list]]`; see [RPZ.md](RPZ.md) and [BLOCKING.md](BLOCKING.md).",
        &["policy_"],
    ),
    (
        "The process",
        "Always. `process_…` have the names that Prometheus clients use.",
        &["process_", "build", "sandbox", "log_", "audit_", "admin_"],
    ),
];

const OPENING: &str = "\
# Metrics

<!-- Made by a test of crates/nomen: NOMEN_UPDATE_REFERENCE=1 cargo test -p nomen --test it conventions -->

`[metrics]` in the configuration has nomen serve its figures over HTTP at `/metrics`, for Prometheus and all that read its
formats: the text format 0.0.4, and OpenMetrics 1.0 for those who ask for it. There is no access control: keep the address on
loopback or a management network.

```toml
[metrics]
listen = \"127.0.0.1@9153\"
```

Counters start at 0 with the process. Times are in seconds, sizes in bytes. Features that are off have no series. A test
compares this page, the Grafana dashboard in `packaging/grafana-dashboard.json` and the alerts in
`packaging/prometheus-alerts.yml` with the program's output.
[MONITORING.md](MONITORING.md) explains how to use them.
";

/// Returns the part of the page for a family: the one with the longest matching beginning.
fn part(name: &str) -> usize {
    let name = name.strip_prefix("nomen_").unwrap_or(name);
    let fitting =
        PARTS.iter().enumerate().flat_map(|(at, (_, _, begins))| begins.iter().map(move |b| (at, *b)));
    let fitting = fitting.filter(|(_, begin)| name.starts_with(begin));
    fitting.max_by_key(|(_, begin)| begin.len()).unwrap_or_else(|| panic!("PARTS has no place for {name}")).0
}

fn page(families: &[Family]) -> String {
    let mut rows = BTreeMap::<usize, String>::new();
    for family in families {
        let Family { name, help, kind, .. } = family;
        let labels: Vec<String> = family.labels().iter().map(|label| format!("`{label}`")).collect();
        let row = rows.entry(part(name)).or_default();
        let (series, labels, help) = (family.series(), labels.join(", "), help.replace('|', "\\|"));
        let _ = writeln!(row, "| `{series}` | {kind} | {labels} | {help} |");
    }
    let mut out = String::from(OPENING);
    for (at, (heading, when, _)) in PARTS.iter().enumerate() {
        let _ =
            write!(out, "\n## {heading}\n\n{when}\n\n| series | type | labels | what |\n|---|---|---|---|\n");
        out += rows.get(&at).map_or("", String::as_str);
    }
    out
}

fn in_tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Returns the names of families that are literals in the source, without `nomen_` and suffixes.
fn in_source() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in fs::read_dir(in_tree("crates/control/src/metrics")).expect("the sources").flatten() {
        let text = fs::read_to_string(file.path()).expect("a source");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for kind in ["counter", "gauge", "family", "histogram", "info"] {
            let call = format!("out.{kind}(");
            let calls = code.split(&call).skip(1);
            let literals = calls.filter_map(|call| call.trim_start().strip_prefix('"')?.split_once('"'));
            names.extend(literals.map(|(name, _)| name.to_owned()));
        }
    }
    assert!(names.len() > 50, "{names:?}");
    names
}

#[test]
fn the_page_of_metrics_is_up_to_date() {
    let (_server, at) = everything_on();
    let wanted = page(&every_family(at));
    let is_missing = |name: &String| {
        let mut series = ["", "_total", "_info"].map(|end| format!("`nomen_{name}{end}`")).into_iter();
        !name.starts_with("process_") && !series.any(|series| wanted.contains(&series))
    };
    let missing: Vec<String> = in_source().into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "the server of this test lacks what {missing:?} count");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(in_tree("docs/METRICS.md"), &wanted).expect("written");
    }
    let found = fs::read_to_string(in_tree("docs/METRICS.md")).unwrap_or_default();
    assert!(found == wanted, "docs/METRICS.md is out of date: run this test with {UPDATE}=1\n{wanted}");
}

/// Returns the names of metrics in any text.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("nomen_") || word.starts_with("process_")).collect()
}

/// Finds metrics in these files that the page does not have. The page has all existing ones.
#[test]
fn dashboard_and_alerts_name_what_there_is() {
    let read = |path: &str| fs::read_to_string(in_tree(path)).expect("a file of the tree");
    let page = read("docs/METRICS.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let known: BTreeSet<String> = rows
        .flat_map(|(series, rest)| match rest.starts_with("histogram") {
            true => ["_bucket", "_sum", "_count"].map(|end| format!("{series}{end}")).to_vec(),
            false => vec![series.to_owned()],
        })
        .collect();
    for path in ["packaging/grafana-dashboard.json", "packaging/prometheus-alerts.yml"] {
        let text = read(path);
        let names = named(&text);
        assert!(names.len() > 10, "{path} names hardly anything");
        let missing: Vec<&&str> = names.iter().filter(|&&name| !known.contains(name)).collect();
        assert!(missing.is_empty(), "{path} names what is not there: {missing:?}");
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("packaging/grafana-dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an ID of its own");
}
