//! Recursive service: a second nomen is the upstream server.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::network::Port;
use wire::edns::{OptionCode, opt_with_options};
use wire::message::Parser;

use crate::iterate::{in_a_network, inside};
use crate::metrics::http;
use crate::support::{
    APEX, BUILT_IN_PORT, BuiltIn, Server, TEST_TIMEOUT, eventually, free_address, message, resident, run,
    text, written,
};

/// Returns the zone `example.` of the upstream: `many` does not fit into a datagram.
fn zone(address: &str) -> String {
    let many: String = (0..120).map(|n| format!("many A 198.51.100.{n}\n")).collect();
    format!("{APEX}www 600 A {address}\nbrief 1 A {address}\nalias CNAME www\n{many}")
}

fn upstream(address: &str) -> Server {
    Server::start(&zone(address), "")
}

/// Starts a server that forwards all names to `upstream`, with more keys of `[resolver]` and more sections.
fn forwarder_in(folder: tempfile::TempDir, upstream: SocketAddr, keys: &str, more: &str) -> Server {
    let rule = format!("[[resolver.forward]]\nservers = [{}]\n", written(upstream));
    Server::start_in(folder, "", &format!("[resolver]\nvalidate = false\n{keys}{rule}{more}"))
}

/// Timeouts so long that no query is repeated, however slow the machine is.
const PATIENT: &str =
    "first-timeout = \"10s\"\nmin-timeout = \"10s\"\nmax-timeout = \"60s\"\nclient-timeout = \"60s\"\n";
/// Timeouts so short that a stopped server is soon given up, and found again.
const HASTY: &str = "first-timeout = \"50ms\"\nprobe-interval = \"100ms\"\nclient-timeout = \"1s\"\n";

fn forwarder(upstream: SocketAddr, keys: &str) -> Server {
    forwarder_in(tempfile::tempdir().expect("a folder"), upstream, keys, "")
}

/// Returns the TTL of the first record of an answer, in seconds.
fn ttl(answer: &str) -> u32 {
    let record = answer.lines().find(|line| !line.starts_with(';') && line.contains("IN")).unwrap_or(answer);
    let mut words = record.split_whitespace();
    words.nth(1).and_then(|ttl| ttl.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

/// Returns the error of a command that must fail.
fn refused(server: &Server, arguments: &[&str]) -> String {
    let output = server.ctl(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    said
}

#[test]
fn what_others_answer_is_passed_on_and_kept() {
    let upstream = upstream("192.0.2.80");
    let server = forwarder(upstream.address, PATIENT);
    let first = server.query(&["WWW.example"]);
    assert!(first.contains("status: NOERROR") && first.contains("flags: qr rd ra"), "{first}");
    assert!(first.contains("192.0.2.80"), "{first}");
    let asked = upstream.counter("udp.queries");
    assert_eq!(server.query(&["www.example", "+tcp", "+short"]), "192.0.2.80\n");
    assert_eq!(server.query(&["alias.example", "+short"]), "www.example.\n192.0.2.80\n");
    assert!(server.query(&["nosuch.example"]).contains("status: NXDOMAIN"));
    assert!(server.query(&["below.nosuch.example"]).contains("status: NXDOMAIN"));
    assert_eq!(upstream.counter("udp.queries"), asked + 2, "one for the alias and one for the denial");
    assert_eq!(server.query(&["a.localhost", "+short"]), "127.0.0.1\n");
    for (name, count) in
        [("cache.misses", 3), ("cache.hits", 1), ("cache.nxdomain.above", 1), ("recursion.local", 1)]
    {
        assert_eq!(server.counter(name), count, "{name}");
    }
}

#[test]
fn an_answer_too_long_for_a_datagram_is_whole_over_tcp() {
    let upstream = upstream("192.0.2.80");
    let server = forwarder(upstream.address, PATIENT);
    for _ in 0..2 {
        let cut = server.query(&["many.example", "+ignore"]);
        assert!(cut.contains(" tc ") && cut.contains("ANSWER: 0,"), "{cut}");
        assert_eq!(server.query(&["many.example", "+tcp", "+short"]).lines().count(), 120);
    }
}

#[test]
fn clients_are_refused_by_access_rules_and_zones_are_for_all() {
    let upstream = upstream("192.0.2.80");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("own.zone"), format!("{APEX}out CNAME www.example.\n")).expect("written");
    let access = "[[resolver.access]]\nfrom = [\"192.0.2.0/24\"]\n";
    let server = forwarder_in(folder, upstream.address, PATIENT, access);
    let answer = server.query(&["www.example"]);
    assert!(answer.contains("status: REFUSED") && answer.contains("EDE: 18 (Prohibited)"), "{answer}");
    assert!(answer.contains("flags: qr rd;"), "no RA: {answer}");
    assert_eq!(server.query(&["out.own", "+short"]), "www.example.\n");
    server.reconfigure("192.0.2.0/24", "loopback");
    server.reload();
    assert_eq!(server.query(&["out.own", "+short"]), "www.example.\n192.0.2.80\n");
    // The command waits for the rest of the chain as a client would.
    let said = text(&server.ctl(&["explain", "out.own"]).stdout);
    assert!(said.contains("CNAME: goes on at www.example.") && said.contains("192.0.2.80"), "{said}");
    assert_eq!(upstream.counter("udp.type.A"), 1);
}

#[test]
fn the_cache_is_shown_flushed_saved_and_loaded() {
    let upstream = upstream("192.0.2.80");
    let folder = tempfile::tempdir().expect("a folder");
    let rule = format!("[[resolver.forward]]\nservers = [{}]\n", written(upstream.address));
    let more = format!("[resolver]\nvalidate = false\n{PATIENT}{rule}");
    let server = Server::start_in(folder, "sandbox-writable = [\".\"]\n", &more);
    for name in ["www.example", "alias.example", "nosuch.example"] {
        server.query(&[name]);
    }
    let stats = server.ctl_json(&["cache", "stats"]);
    assert_eq!((&stats["entries"], &stats["kept"]), (&3.into(), &3.into()), "{stats}");
    // The CNAME led to a cached entry.
    assert_eq!((&stats["hits"], &stats["misses"]), (&0.into(), &3.into()), "{stats}");
    for name in ["www.example", "WWW.example", "nosuch.example"] {
        server.query(&[name]);
    }
    let stats = server.ctl_json(&["cache", "stats"]);
    let figures = ["hits", "negative_hits", "misses", "hit_percent"].map(|key| stats[key].to_string());
    assert_eq!(figures, ["3", "1", "3", "50.0"], "{stats}");
    let dump = text(&server.ctl(&["cache", "dump"]).stdout);
    for words in ["; www.example. A NOERROR, ", "; nosuch.example. every type NXDOMAIN, ", "192.0.2.80"] {
        assert!(dump.contains(words), "{words}: {dump}");
    }
    assert_eq!(server.ctl_json(&["cache", "save", "copy"])["entries"], 3);
    assert_eq!(server.ctl_json(&["cache", "flush", "www.example", "--type", "MX"])["dropped"], 0);
    assert_eq!(server.ctl_json(&["cache", "flush", "WWW.example"])["dropped"], 1);
    assert_eq!(server.ctl_json(&["cache", "flush", "example", "--tree"])["dropped"], 2);
    assert_eq!(server.ctl_json(&["cache", "stats"])["entries"], 0);
    let loaded = server.ctl_json(&["cache", "load", "copy"]);
    assert_eq!((&loaded["kept"], &loaded["left_out"]), (&3.into(), &0.into()), "{loaded}");
    let asked = upstream.counter("udp.queries");
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.80\n");
    assert_eq!(upstream.counter("udp.queries"), asked);
}

#[test]
fn bad_commands_on_the_cache_are_refused_in_words() {
    let server = forwarder(free_address(), "");
    fs::write(server.path("text"), "this is no cache, and longer than the beginning of one")
        .expect("written");
    for (arguments, words) in [
        (&["cache", "flush", "a..b"][..], "a..b"),
        (&["cache", "flush", "a", "--type", "NONSENSE"], "`NONSENSE` is no record type"),
        (&["cache", "save"], "name a file: the configuration has none"),
        (&["cache", "load"], "name a file: the configuration has none"),
        (&["cache", "load", "nosuch"], "nosuch: there is no such file"),
        (&["cache", "load", "text"], "text is not a file of a cache"),
        (&["cache", "save", "/dev/null/cache"], "cannot write /dev/null/cache"),
        (&["explain", "www.example", "NONSENSE"], "`NONSENSE` is no record type"),
    ] {
        let said = refused(&server, arguments);
        assert!(said.contains(words) && !said.contains("os error"), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let plain = Server::start(APEX, "");
    for arguments in [&["cache", "stats"][..], &["cache", "dump"], &["forward", "list"]] {
        assert!(refused(&plain, arguments).contains("recursive service is off"), "{arguments:?}");
    }
}

#[test]
fn rules_are_listed_added_and_removed() {
    let (first, second) = (upstream("192.0.2.1"), upstream("192.0.2.2"));
    let server = forwarder(first.address, PATIENT);
    let at = |address: SocketAddr| format!("{}@{}", address.ip(), address.port());
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
    let list = server.ctl_json(&["forward", "list"]);
    assert_eq!((&list[0]["domain"], &list[0]["kind"]), (&".".into(), &"forward".into()), "{list}");
    assert_eq!(list[0]["servers"][0]["server"], first.address.to_string());
    assert_eq!((&list[0]["servers"][0]["state"], &list[0]["servers"][0]["udp"]), (&"ok".into(), &1.into()));
    // Cached answers for its names belong to another rule.
    assert!(server.ctl(&["forward", "add", "example", &at(second.address), "--stub"]).status.success());
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.2\n");
    let listed = text(&server.ctl(&["forward", "list"]).stdout);
    assert!(listed.contains("example. stub\n") && listed.contains(". forward\n"), "{listed}");
    assert!(server.ctl(&["forward", "remove", "example"]).status.success());
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
    let own = at(server.address);
    for (arguments, words) in [
        (&["forward", "remove", "example"][..], "there is no rule for example"),
        (&["forward", "add", "a..b", "192.0.2.1"], "a..b"),
        (&["forward", "add", ".", "192.0.2.1", "--stub"], "no server is authoritative for all names"),
        (&["forward", "add", "example", &own], "would query itself"),
    ] {
        let said = refused(&server, arguments);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let usage = server.ctl(&["forward", "add", "example", "0.0.0.0"]);
    assert_eq!(usage.status.code(), Some(2));
    // They hold until the configuration is read again.
    assert!(server.ctl(&["forward", "add", "example", &at(second.address)]).status.success());
    server.reload();
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
}

#[test]
fn explain_shows_a_live_lookup_and_then_the_cache() {
    let upstream = upstream("192.0.2.80");
    let server = forwarder(upstream.address, PATIENT);
    let live = server.ctl_json(&["explain", "www.example", "A"]);
    let steps = live["steps"].to_string();
    for words in ["no zone here holds the name", "the rule for . covers it", "it is not in the cache"] {
        assert!(steps.contains(words), "{words}: {steps}");
    }
    assert!(steps.contains(&upstream.address.to_string()), "{steps}");
    assert!(live["answer"].as_str().is_some_and(|answer| answer.contains("192.0.2.80")), "{live}");
    let cached = text(&server.ctl(&["explain", "www.example", "A"]).stdout);
    assert!(cached.contains("it is in the cache, for ") && cached.contains("192.0.2.80"), "{cached}");
    server.ctl(&["explain", "nosuch.example"]);
    let denied = text(&server.ctl(&["explain", "below.nosuch.example"]).stdout);
    assert!(denied.contains("NXDOMAIN of a name above is cached") && denied.contains("NXDOMAIN"), "{denied}");
    let local = text(&server.ctl(&["explain", "a.localhost"]).stdout);
    assert!(local.contains("special-use name") && local.contains("127.0.0.1"), "{local}");
    assert_eq!(upstream.counter("udp.queries"), 2);
}

#[test]
fn figures_of_recursive_service_move() {
    let (upstream, at) = (upstream("192.0.2.80"), free_address());
    let metrics = format!("[metrics]\nlisten = {}\n", written(at));
    let server = forwarder_in(tempfile::tempdir().expect("a folder"), upstream.address, PATIENT, &metrics);
    for _ in 0..3 {
        server.query(&["www.example"]);
    }
    let figures = http(at, "GET /metrics");
    let of = upstream.address;
    for line in [
        "nomen_cache_hits_total 2".to_owned(),
        "nomen_cache_misses_total 1".into(),
        "nomen_cache_entries 1".into(),
        "nomen_forward_lookups_total 1".into(),
        "nomen_forward_answered_total 1".into(),
        "nomen_forward_in_flight 0".into(),
        "nomen_forward_shed_total{reason=\"clients\"} 0".into(),
        format!("nomen_upstream_udp_queries_total{{server=\"{of}\"}} 1"),
        format!("nomen_upstream_failing{{server=\"{of}\"}} 0"),
        format!("nomen_upstream_rtt_seconds_count{{server=\"{of}\"}} 1"),
    ] {
        assert!(figures.lines().any(|l| l == line), "{line} is missing:\n{figures}");
    }
    let sum = figures.lines().find_map(|line| line.strip_prefix("nomen_upstream_rtt_seconds_sum{"));
    let sum = sum.and_then(|rest| rest.split_whitespace().last()).and_then(|sum| sum.parse::<f64>().ok());
    assert!(sum.is_some_and(|sum| sum > 0.0 && sum < TEST_TIMEOUT.as_secs_f64()), "{sum:?}");
}

#[test]
fn a_reload_changes_servers_and_drops_what_the_others_have_said() {
    let (first, second) = (upstream("192.0.2.1"), upstream("192.0.2.2"));
    let server = forwarder(first.address, PATIENT);
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
    server.reload();
    assert_eq!(server.ctl_json(&["cache", "stats"])["entries"], 1, "nothing has changed");
    server.reconfigure(&written(first.address), &written(second.address));
    server.reload();
    // An answer of the first server may still be cached.
    eventually("the second is asked", &server, || server.query(&["www.example", "+short"]) == "192.0.2.2\n");
    assert_eq!(server.ctl_json(&["status"])["pending_keys"], serde_json::json!([]));
    server.reconfigure("[resolver]\n", "[resolver]\nlocal-data = [\"www.example. 60 A 192.0.2.3\"]\n");
    server.reload();
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.3\n");
    server.reconfigure("[resolver]\n", "[resolver]\ncache-size = \"8MiB\"\n");
    server.reload();
    let pending = server.ctl_json(&["status"])["pending_keys"].clone();
    assert_eq!(pending[0]["key"], "cache-size", "{pending}");
}

#[test]
fn the_cache_survives_a_restart_and_a_damaged_file_does_no_harm() {
    let upstream = upstream("192.0.2.80");
    let keys = "cache-file = \"cache\"\n";
    let start = |folder| forwarder_in(folder, upstream.address, keys, "");
    let server = start(tempfile::tempdir().expect("a folder"));
    let before = ttl(&server.query(&["www.example"]));
    let folder = server.stop();
    let mode =
        std::os::unix::fs::MetadataExt::mode(&fs::metadata(folder.path().join("cache")).expect("saved"));
    assert_eq!(mode & 0o777, 0o600);
    let asked = upstream.counter("udp.queries");
    let server = start(folder);
    server.wait_for_log("cache read from cache", 1);
    // A second passes on the system's clock, if not between the two servers.
    eventually("its TTL has aged", &server, || ttl(&server.query(&["www.example"])) < before);
    assert_eq!(upstream.counter("udp.queries"), asked);
    let folder = server.stop();
    let mut damaged = fs::read(folder.path().join("cache")).expect("saved");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(folder.path().join("cache"), &damaged).expect("written");
    let server = start(folder);
    server.wait_for_log("the cache's file cache cannot be used: damaged", 1);
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.80\n");
    let said = server.ctl(&["cache", "load"]);
    assert!(text(&said.stderr).contains("cannot be read to its end: damaged"), "{}", text(&said.stderr));
    assert!(server.ctl(&["cache", "save"]).status.success());
    assert_eq!(server.ctl_json(&["cache", "load"])["kept"], 1);
}

#[test]
fn a_preallocated_cache_has_its_memory_before_there_is_anything_in_it() {
    let bytes = |keys: &str| {
        let upstream = upstream("192.0.2.80");
        let keys = format!("cache-size = \"256MiB\"\n{keys}");
        let server = forwarder(upstream.address, &keys);
        if keys.contains("preallocate") {
            server.wait_for_log("the cache's memory is allocated", 1);
        }
        assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.80\n");
        server.resident()
    };
    let (small, large) = (bytes(""), bytes("cache-preallocate = true\n"));
    assert!(large > 250 << 20 && small < EMPTY, "{small} and {large} bytes");
}

/// Maximum memory in bytes of a server with two workers and a nearly empty cache.
const EMPTY: u64 = 64 << 20;

/// Returns environment variables that avoid huge pages where the system gives them without a request, for
/// example for stacks of threads.
fn without_unwanted_huge_pages() -> &'static [(&'static str, &'static str)] {
    let policy = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if policy.contains("[always]") { &[("MIMALLOC_ALLOW_THP", "0")] } else { &[] }
}

#[test]
fn an_empty_resolver_took_more_than_a_hundred_megabytes() {
    in_a_network("recursion::inside_an_empty_resolver_took_more_than_a_hundred_megabytes");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_an_empty_resolver_took_more_than_a_hundred_megabytes() {
    inside();
    // Without a route they all fail, which is cached: so many that each part of the cache has some.
    let ask = |server: SocketAddr| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        for id in 0..100 {
            let (mut query, mut reply) = (message(id, &format!("n{id}.example"), 1), [0; 512]);
            query[2] |= 1; // RD
            socket.send_to(&query, server).expect("sent");
            socket.recv(&mut reply).expect("answered");
            assert_eq!(reply[3] & 15, 2, "SERVFAIL");
        }
    };
    let (folder, variables) = (tempfile::tempdir().expect("a folder"), without_unwanted_huge_pages());
    let server = Server::start_with_environment(free_address(), folder, "", "[resolver]\n", variables);
    ask(server.address);
    let (two_workers, folder) = (server.resident(), server.stop());
    assert!(two_workers < EMPTY, "{two_workers} bytes with two workers");

    let mut child = crate::support::nomen(&["serve", "--resolve"])
        .current_dir(folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .env("TMPDIR", folder.path())
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .expect("nomen starts");
    let mut out = child.stdout.take().expect("its output");
    let (mut said, mut buf) = (String::new(), [0; 4096]);
    while !said.contains("Stop with Ctrl-C") {
        let n = out.read(&mut buf).expect("its words");
        assert!(n > 0, "{said}");
        said += &text(&buf[..n]);
    }
    ask(SocketAddr::from(([127, 0, 0, 1], 5300)));
    let one_command = resident(child.id());
    child.kill().expect("killed");
    child.wait().expect("ended");
    // It has a worker for each CPU and each of two addresses.
    let more = std::thread::available_parallelism().map_or(0, |cpus| cpus.get().saturating_sub(2)) as u64;
    assert!(one_command < EMPTY + more * (2 << 20), "{one_command} bytes with `serve --resolve`");
}

#[test]
fn a_cache_file_that_cannot_be_written_is_reported_and_answers_go_on() {
    let upstream = upstream("192.0.2.80");
    let mut server = forwarder(upstream.address, "cache-file = \"no/such/folder/cache\"\n");
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.80\n");
    let said = refused(&server, &["cache", "save"]);
    assert!(said.contains("cannot write no/such/folder/cache: there is no such file"), "{said}");
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
    server.wait_for_log("the cache cannot be saved to no/such/folder/cache", 1);
}

#[test]
fn upstream_dies_and_comes_back() {
    let first = upstream("192.0.2.1");
    let address = first.address;
    let server = forwarder(address, HASTY);
    assert_eq!(server.query(&["brief.example", "+short"]), "192.0.2.1\n");
    drop(first);
    let failed = server.query(&["www.example"]);
    assert!(failed.contains("status: SERVFAIL") && failed.contains("EDE: 23 (Network Error)"), "{failed}");
    // Its TTL of one second ends, though maybe not at once.
    eventually("an old answer is served", &server, || {
        let stale = server.query(&["brief.example"]);
        assert!(stale.contains("192.0.2.1"), "{stale}");
        stale.contains("EDE: 3 (Stale Answer)")
    });
    eventually("it is known to fail", &server, || {
        server.ctl_json(&["forward", "list"])[0]["servers"][0]["state"] == "failing"
    });
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), zone("192.0.2.2")).expect("written");
    let _second = Server::start_at(address, folder, "", "");
    for name in ["www.example", "brief.example"] {
        eventually("it is asked again", &server, || server.query(&[name, "+short"]) == "192.0.2.2\n");
    }
}

#[test]
fn sigterm_answers_those_who_wait_for_other_servers() {
    const CLIENTS: u16 = 20;
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = silent.local_addr().expect("its address");
    let folder = tempfile::tempdir().expect("a folder");
    let rule = format!(
        "[resolver]\nclient-timeout = \"60s\"\ntries = 64\n[[resolver.forward]]\nservers = [{}]\n",
        written(address)
    );
    let mut server = Server::start_in(folder, "drain = \"1m\"\n", &rule);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(server.address).expect("connected");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    for id in 0..CLIENTS {
        socket.send(&message(id, "www.example", 1)).expect("sent");
    }
    // RD is clear in these: no server is queried for them.
    let mut buf = [0; 512];
    for _ in 0..CLIENTS {
        socket.recv(&mut buf).expect("answered");
    }
    for id in 0..CLIENTS {
        let mut query = message(id, "www.example", 1);
        query[2] |= 1;
        socket.send(&query).expect("sent");
    }
    eventually("all wait", &server, || server.counter("deferred") == u64::from(CLIENTS));
    server.signal(Signal::SIGTERM);
    let mut ids: Vec<u16> = Vec::new();
    for _ in 0..CLIENTS {
        socket.recv(&mut buf).expect("answered");
        assert_eq!(buf[3] & 15, 2, "SERVFAIL");
        ids.push(u16::from_be_bytes([buf[0], buf[1]]));
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..CLIENTS).collect::<Vec<_>>());
    assert!(server.wait().success(), "{}", server.log());
}

/// Its port is fixed: where another program uses it the start fails with an error, elsewhere it works.
#[test]
fn a_forwarder_is_one_command() {
    let _port = BUILT_IN_PORT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let upstream = upstream("192.0.2.80");
    let server = format!("{}@{}", upstream.address.ip(), upstream.address.port());
    let Some(forwarder) = BuiltIn::start(&["--forward", &server]) else { return };
    assert_eq!(forwarder.query("www.example", &["+short"]), "192.0.2.80\n");
    let said = &forwarder.greeting;
    assert!(said.contains(&format!("forwards queries of this machine to {server}")), "{said}");
    for arguments in
        [&["serve", "--forward", "nonsense"][..], &["serve", "--forward", "192.0.2.1", "--config", "x"]]
    {
        assert_eq!(run(Path::new("."), arguments).status.code(), Some(2), "{arguments:?}");
    }
    let own = run(Path::new("."), &["serve", "--forward", "127.0.0.1@5300"]);
    assert!(text(&own.stderr).contains("would query itself"), "{}", text(&own.stderr));
}

/// Names in private networks had no AAAA records by DNS64, and nothing showed why.
#[test]
fn explain_shows_what_dns64_makes_of_each_address() {
    let (own, global) = (upstream("10.0.0.1"), upstream("8.8.8.8"));
    let prefix = "dns64-prefix = \"64:ff9b::/96\"\n";
    let steps = |server: &Server| text(&server.ctl(&["explain", "www.example", "AAAA"]).stdout);
    let server = forwarder(own.address, &format!("{PATIENT}{prefix}"));
    let said = steps(&server);
    assert!(said.contains("no AAAA record for 10.0.0.1: it is not global"), "{said}");
    assert!(said.contains("`dns64-non-global`"), "{said}");
    assert_eq!(server.query(&["www.example", "AAAA", "+short"]), "");
    let server = forwarder(own.address, &format!("{PATIENT}{prefix}dns64-non-global = true\n"));
    assert!(steps(&server).contains("64:ff9b::a00:1 is synthesized from 10.0.0.1"));
    assert_eq!(server.query(&["www.example", "AAAA", "+short"]), "64:ff9b::a00:1\n");
    let server = forwarder(global.address, &format!("{PATIENT}{prefix}"));
    assert!(steps(&server).contains("64:ff9b::808:808 is synthesized from 8.8.8.8"));
}

#[test]
fn names_of_a_domain_that_is_not_to_be_asked_for_went_to_the_rule_above_it() {
    let upstream = upstream("192.0.2.81");
    let below =
        format!("[[resolver.stub]]\ndomain = \"brief.example\"\nservers = [{}]\n", written(upstream.address));
    let keys = format!("{PATIENT}refused-domains = [\"www.example\", \"example\"]\n");
    let server = forwarder_in(tempfile::tempdir().expect("a folder"), upstream.address, &keys, &below);
    for query in [
        &["www.example"][..],
        &["x.www.example"],
        &["alias.example"],
        &["example", "DS"],
        &["example", "SOA"],
    ] {
        let answer = server.query(query);
        assert!(answer.contains("status: REFUSED") && answer.contains("EDE: 20"), "{query:?}: {answer}");
    }
    // The rule with the longest domain counts.
    let answer = server.query(&["brief.example"]);
    assert!(answer.contains("192.0.2.81"), "{answer}");
}

#[test]
fn connections_of_clients_left_no_descriptors_for_other_servers() {
    let upstream = Server::start(&format!("{APEX}* A 192.0.2.7\n"), "");
    let address = free_address();
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "[server]\nworkers = 2\ntcp-connections-per-client = 10000\ntcp-first-timeout = \"10m\"\n[[listen]]\n\
         addr = [{}]\n[control]\nsocket = \"ctl.sock\"\n[resolver]\nvalidate = false\n[[resolver.forward]]\n\
         servers = [{}]\n",
        written(address),
        written(upstream.address)
    );
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    let log = fs::File::create(folder.path().join("log")).expect("a log");
    let mut command = std::process::Command::new("prlimit");
    crate::support::without_manager(&mut command);
    command.args(["--nofile=256:256", env!("CARGO_BIN_EXE_nomen"), "serve", "--config", "nomen.toml"]);
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
    let server = Server::start_by(command, address, folder);
    assert!(server.log().contains("the limit of open files is 256, and up to "), "{}", server.log());
    let most = server
        .log()
        .split_once("at most ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse::<usize>().ok())
        .expect("a number");
    let held: Vec<_> = (0..250).map(|_| std::net::TcpStream::connect(address).expect("connected")).collect();
    let taken = || server.ctl_json(&["status"])["tcp_connections"].as_u64().expect("a number") as usize;
    eventually("as many connections as may be are taken", &server, || taken() >= most);
    for name in 0..50 {
        let answer = server.query(&[&format!("n{name}.example")]);
        assert!(answer.contains("192.0.2.7"), "{answer}");
    }
    assert!(taken() <= most);
    assert_eq!(server.counter("forward.sockets.exhausted"), 0);
    drop(held);
}

/// Returns a command that sets limits of open files for a process, or for a program that it starts.
fn prlimit(limits: &str) -> std::process::Command {
    let mut command = std::process::Command::new("prlimit");
    command.arg(format!("--nofile={limits}"));
    command
}

#[test]
fn descriptors_that_ran_out_were_neither_counted_nor_logged() {
    let upstream = Server::start(&format!("{APEX}* A 192.0.2.7\n"), "");
    let server = forwarder(upstream.address, PATIENT);
    assert!(server.query(&["before.example"]).contains("192.0.2.7"));
    assert_eq!(server.counter("forward.sockets.exhausted"), 0);
    let limit = |soft: &str| {
        let done = prlimit(soft).args(["--pid", &server.id().to_string()]).status();
        assert!(done.is_ok_and(|status| status.success()), "{soft}");
    };
    // No descriptor below 3 is free: open ones stay, and no others can be opened.
    limit("3:");
    let mut asked = 0;
    eventually("sockets that were opened before are used up", &server, || {
        asked += 1;
        server.query(&[&format!("n{asked}.example")]).contains("status: SERVFAIL")
    });
    limit("1024:");
    eventually("others are answered again", &server, || {
        asked += 1;
        server.query(&[&format!("n{asked}.example")]).contains("192.0.2.7")
    });
    assert!(server.counter("forward.sockets.exhausted") > 0);
    server.wait_for_log("no file descriptor was left for sockets to other servers", 1);
    let log = server.log();
    assert!(log.contains("sockets=") && log.contains("raise the limit of open files"), "{log}");
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_may_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = free_address();
    let config = format!("[[listen]]\naddr = [{}]\n", written(address));
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    let log = fs::File::create(folder.path().join("log")).expect("a log");
    let mut command = prlimit("64:900");
    crate::support::without_manager(&mut command);
    command.args([env!("CARGO_BIN_EXE_nomen"), "serve", "--config", "nomen.toml"]);
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
    let server = Server::start_by(command, address, folder);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id())).expect("its limits");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    assert_eq!(files.split_whitespace().skip(3).take(2).collect::<Vec<_>>(), ["900", "900"], "{files}");
}

#[test]
fn addresses_came_in_one_order_for_ever() {
    let three = "three 600 A 192.0.2.1\nthree A 192.0.2.2\nthree A 192.0.2.3\nto CNAME three\n";
    let upstream = Server::start(&format!("{APEX}{three}"), "");
    let server = forwarder(upstream.address, PATIENT);
    // The order follows the ID of the query, so that each address is first for a third of all queries.
    let firsts = |server: &Server, name: &str| {
        let ask = |id: u16| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("set");
            let mut query = message(id, name, 1);
            query[2] |= 1;
            socket.send_to(&query, server.address).expect("sent");
            let mut reply = [0; 512];
            let len = socket.recv(&mut reply).expect("a reply");
            assert_eq!(&reply[..2], id.to_be_bytes());
            // Each address record ends with its last byte, before the owner of the next.
            let ends = (0..len).filter(|at| reply[..*at].ends_with(&[0, 4, 192, 0, 2]));
            ends.map(|at| reply[at]).collect::<Vec<_>>()
        };
        (0..3).map(ask).collect::<Vec<_>>()
    };
    let all = [vec![1, 2, 3], vec![2, 3, 1], vec![3, 1, 2]];
    for (whose, server) in [("the zone's", &upstream), ("the cache's", &server)] {
        for name in ["three.example", "to.example"] {
            assert!(server.query(&[name]).contains("192.0.2.3"), "{name} is in the cache");
            let mut orders = firsts(server, name);
            orders.sort();
            assert_eq!(orders, all, "{whose} {name}");
        }
    }
    upstream.reconfigure("[server]\n", "[server]\nrotate-addresses = false\n");
    upstream.reload();
    eventually("the order stays", &upstream, || {
        firsts(&upstream, "three.example") == [[1, 2, 3]; 3].map(Vec::from)
    });
}

#[test]
fn other_servers_are_asked_from_the_address_that_is_configured() {
    let upstream = Server::start(&zone("192.0.2.80"), "[log]\nqueries = true\n");
    let server = forwarder(upstream.address, &format!("{PATIENT}source = [\"127.0.0.53\"]\n"));
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.80\n");
    upstream.wait_for_log("query client=127.0.0.53:", 1);
    assert!(server.query(&["many.example", "+tcp"]).contains("198.51.100.9"));
    eventually("over TCP, too", &upstream, || {
        upstream
            .log()
            .lines()
            .any(|line| line.contains("client=127.0.0.53:") && line.contains("transport=\"tcp\""))
    });
}

/// A server's reply to a query: SERVFAIL, with an extended error whose text would change a terminal's
/// colours.
fn failing(query: &[u8]) -> Option<(Vec<u8>, Duration)> {
    let (_, mut parser) = Parser::new(query).ok()?;
    parser.question().ok()?;
    let mut reply = query[..parser.position().index()].to_vec();
    reply[2] |= 0x80;
    reply[3] = 0x82;
    // One record, in the additional section.
    reply[6..12].copy_from_slice(&[0, 0, 0, 0, 0, 1]);
    let error = (OptionCode::EXTENDED_ERROR, &b"\0\x0fby \x1b[31mthe law"[..]);
    reply.extend(opt_with_options(1232, false, &[error]));
    Some((reply, Duration::ZERO))
}

/// The extended error of an upstream's failure was dropped.
#[test]
fn explain_did_not_show_the_extended_errors_of_other_servers() {
    let at = free_address();
    let _upstream = Port::open(at, false, Arc::new(failing));
    let server = forwarder(at, "");
    let said = text(&server.ctl(&["explain", "www.example", "A"]).stdout);
    let shown = "extended error 15 (Blocked) \"by ?[31mthe law\": of no use: its response code is SERVFAIL";
    assert!(said.contains("replied SERVFAIL by ") && said.contains(shown), "{said}");
    let steps = server.ctl_json(&["explain", "www.example", "A"])["steps"].to_string();
    assert!(steps.contains("extended error 15 (Blocked)"), "{steps}");
}

/// One unusable trust anchor prevented the start, though another of its zone was usable.
#[test]
fn trust_anchors_that_cannot_be_used_are_warned_of() {
    let usable = ". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D";
    // An unknown digest type.
    let unusable = ". DS 20326 8 200 E06D";
    let folder = tempfile::tempdir().expect("a folder");
    let keys = format!("[resolver]\ntrust-anchors = [\"{usable}\", \"{unusable}\"]\n");
    let server = Server::start_in(folder, "", &keys);
    server.wait_for_log("is not used, others of that zone are", 1);
    let checked = run(server.path("").as_path(), &["check", "nomen.toml"]);
    assert!(checked.status.success(), "{checked:?}");
    let said = text(&checked.stdout) + &text(&checked.stderr);
    assert!(said.contains("a trust anchor of . `. DS 20326 8 200 E06D` is not used"), "{said}");
    server.reconfigure(&format!("\"{usable}\", \"{unusable}\""), "");
    server.reload();
    server.wait_for_log("no answer counts as signed: `trust-anchors` is empty", 1);
}
