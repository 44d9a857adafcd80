//! Parental servers, resolvers and NOTIFY targets on loopback addresses, asked as in operation.

use std::net::IpAddr;
use std::path::Path;

use query_path::access::{AccessAction, AccessRule};
use query_path::{EngineConfig, Sources, ViewClients, ViewRule, Views, Zones};
use tempfile::TempDir;
use testkit::{ModelRecord, build, key};
use wire::message::{Opcode, Parser};
use wire::{Name, ViewName};
use zone::catalog::{Catalog, Change};

use super::*;
use crate::frontend::serving;
use crate::hosts::system::SystemResolvers;
use crate::hosts::testing::{Received, Response, Responses, Servers, dsync, name};

const ZONE: &str = "child.parent.example";
const DS: &[u8] = &[0, 1, 8, 2, 0xab];
const OTHER: &[u8] = &[0, 2, 8, 2, 0xcd];

/// Longer than any test takes: no outcome depends on it.
const LONG: Duration = Duration::from_secs(60);
/// For servers that do not respond.
const SHORT: Duration = Duration::from_millis(20);

fn zone(text: &str) -> ZoneName {
    name(text).as_name().into()
}

fn rdata(text: &str) -> Vec<u8> {
    name(text).as_name().as_wire().to_vec()
}

fn found(rdatas: &[&[u8]], ttl: Option<u32>) -> Result<DsAtServer, String> {
    let rdatas = rdatas.iter().map(|rdata| rdata.to_vec()).collect();
    Ok(DsAtServer { rdatas, ttl: ttl.map(Ttl::from_secs) })
}

/// A server with this DS set for [`ZONE`].
fn with_ds(rdatas: &'static [&'static [u8]]) -> Responses {
    Arc::new(move |_, qtype| {
        let response = Response::to(ZONE, qtype).authoritative();
        Some(match rdatas {
            [] => response.soa("parent.example"),
            some => some.iter().fold(response, |response, ds| response.answer(ZONE, Type::DS, 300, ds)),
        })
    })
}

fn always(response: Response) -> Responses {
    Arc::new(move |_, _| Some(response.clone()))
}

fn timing(port: u16) -> ParentalTiming {
    ParentalTiming { timeout: LONG, tries: 2, port }
}

/// Hosts without resolvers.
fn no_hosts() -> ParentalHosts {
    ParentalHosts::of(ServerHosts::of_system(SystemResolvers::new(Path::new("/nonexistent/resolv.conf"), 1)))
}

/// Hosts by the resolver at 127.0.0.1 and this port, as long as the folder exists.
fn resolver_at(port: u16) -> (ParentalHosts, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("resolv.conf");
    std::fs::write(&file, "nameserver 127.0.0.1\n").expect("written");
    (ParentalHosts::of(ServerHosts::of_system(SystemResolvers::new(&file, port))), folder)
}

/// A resolver with these records; other names of `exists` have no records, and others do not exist.
fn resolver(records: Vec<TestRecord>, exists: &'static [&'static str]) -> Responses {
    Arc::new(move |qname: Name<'_>, qtype| {
        let mut response = Response::to(&qname.to_string(), qtype);
        let own = records.iter().filter(|(owner, ..)| name(owner).as_name() == qname);
        let own: Vec<_> = own.collect();
        let matching = own.iter().filter(|(_, rtype, _)| *rtype == qtype || *rtype == Type::CNAME);
        let mut is_empty = true;
        for (owner, rtype, data) in matching {
            (is_empty, response) = (false, response.answer(owner, *rtype, 60, data));
        }
        let is_known = !own.is_empty() || exists.iter().any(|one| name(one).as_name() == qname);
        Some(match is_empty {
            false => response,
            true if is_known => response.soa("example"),
            true => response.rcode(Rcode::NXDOMAIN).soa("example"),
        })
    })
}

type TestRecord = (&'static str, Type, Vec<u8>);

fn catalog_with(zones: &[(&str, &[TestRecord])]) -> Arc<Catalog> {
    let built = zones.iter().map(|(apex, records)| {
        let soa = (*apex, Type::SOA, [rdata("ns.test"), rdata("host.test"), vec![0; 20]].concat());
        let record = |(owner, rtype, rdata): &(&str, _, Vec<u8>)| ModelRecord {
            owner: name(owner),
            rtype: *rtype,
            ttl: Ttl::from_secs(300),
            rdata: rdata.clone(),
        };
        let records: Vec<ModelRecord> = [soa].iter().chain(*records).map(record).collect();
        Change::Serve(Arc::new(build(name(apex).as_name(), &key(), &records)))
    });
    Arc::new(Catalog::new(&key()).with(built).expect("zones of one key"))
}

fn engine_with(zones: &[(&str, &[TestRecord])]) -> Arc<Engine<Served>> {
    let zones = serving(Zones::new(catalog_with(zones)));
    Arc::new(Engine::new(zones, Sources::default(), EngineConfig::default()))
}

/// The question of a query with its header.
fn parsed(received: &Received) -> (Header, NameBuf, Type) {
    let (header, mut parser) = Parser::new(&received.message).expect("a query");
    let question = parser.question().expect("a question");
    (header, question.name.to_buf(), question.qtype)
}

#[tokio::test]
async fn each_configured_server_is_asked_and_each_answer_is_judged_alone() {
    let lame = always(Response::to(ZONE, Type::DS).rcode(Rcode::REFUSED));
    let child_only = always(Response::to(ZONE, Type::DS).authoritative().soa(ZONE));
    let all = vec![with_ds(&[DS, OTHER]), with_ds(&[DS]), with_ds(&[]), lame, child_only];
    let servers = Servers::start(all).await;
    let addresses: Vec<SocketAddr> = (1..=5).map(|last| servers.address(last)).collect();
    let report = ask_parents(&no_hosts(), &Weak::new(), &zone(ZONE), &addresses, &timing(0)).await;
    assert_eq!((&report.parent, &report.fault), (&None, &None));
    let shown: Vec<String> = report.servers.iter().map(|answer| answer.server.clone()).collect();
    assert_eq!(shown, addresses.iter().map(ToString::to_string).collect::<Vec<_>>());
    let answers: Vec<_> = report.servers.iter().map(|answer| answer.found.clone()).collect();
    assert_eq!(answers[..3], [found(&[DS, OTHER], Some(300)), found(&[DS], Some(300)), found(&[], None)]);
    assert_eq!(answers[3], Err("the response is REFUSED".to_owned()));
    assert!(answers[4].as_ref().is_err_and(|fault| fault.contains("the zone itself")));
    assert_eq!(report.largest_ttl(), Some(Ttl::from_secs(300)));
    let (header, qname, qtype) = parsed(&servers.received_at(1)[0]);
    assert_eq!((qname, qtype), (name(ZONE), Type::DS));
    assert!(!header.recursion_desired());
    let query = &servers.received_at(1)[0].message;
    assert!(
        query.ends_with(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]),
        "EDNS with 1232 bytes and without DO"
    );
}

#[test]
fn everywhere_means_that_all_servers_are_known_and_have_answered() {
    let answer = |found| ParentalAnswer { server: "192.0.2.1".to_owned(), found };
    let report = |fault: Option<&str>, servers: &[ParentalAnswer]| {
        let fault = fault.map(str::to_owned);
        let report = ParentReport { at: UnixTime::EPOCH, parent: None, servers: servers.to_vec(), fault };
        report.is_everywhere(|ds| !ds.rdatas.is_empty())
    };
    let (with, without) = (answer(found(&[DS], Some(1))), answer(found(&[], None)));
    assert!(report(None, &[with.clone(), with.clone()]));
    assert!(!report(None, &[with.clone(), without]));
    assert!(!report(None, &[with.clone(), answer(Err("no".to_owned()))]));
    assert!(!report(Some("more"), &[with]));
    assert!(!report(None, &[]));
}

#[tokio::test]
async fn a_server_that_does_not_respond_is_a_fault() {
    let servers = Servers::start(vec![Arc::new(|_, _| None)]).await;
    let timing = ParentalTiming { timeout: SHORT, ..timing(0) };
    let addresses = [servers.address(1)];
    let report = ask_parents(&no_hosts(), &Weak::new(), &zone(ZONE), &addresses, &timing).await;
    assert_eq!(report.servers[0].found, Err("it does not respond".to_owned()));
}

#[tokio::test]
async fn a_lost_query_is_sent_again() {
    let lost = std::sync::atomic::AtomicBool::new(false);
    let responses: Responses = Arc::new(move |qname, qtype| {
        let is_first = !lost.swap(true, std::sync::atomic::Ordering::Relaxed);
        (!is_first).then(|| with_ds(&[DS])(qname, qtype)).flatten()
    });
    let servers = Servers::start(vec![responses]).await;
    // As many tries as a slow machine needs.
    let timing = ParentalTiming { timeout: Duration::from_millis(100), tries: 1000, port: 0 };
    let addresses = [servers.address(1)];
    let report = ask_parents(&no_hosts(), &Weak::new(), &zone(ZONE), &addresses, &timing).await;
    assert_eq!(report.servers[0].found, found(&[DS], Some(300)));
}

#[tokio::test]
async fn a_truncated_response_is_asked_for_over_tcp() {
    let response = Response::to(ZONE, Type::DS).answer(ZONE, Type::DS, 300, DS).truncated();
    let servers = Servers::start(vec![always(response)]).await;
    let addresses = [servers.address(1)];
    let report = ask_parents(&no_hosts(), &Weak::new(), &zone(ZONE), &addresses, &timing(0)).await;
    assert_eq!(report.servers[0].found, found(&[DS], Some(300)));
    let ways: Vec<bool> = servers.received_at(1).iter().map(|query| query.over_tcp).collect();
    assert_eq!(ways, [false, true]);
}

#[tokio::test]
async fn responses_to_other_queries_are_ignored() {
    let (servers, mut sockets) = Servers::bind(1).await;
    let (udp, _tcp) = sockets.remove(0);
    let addresses = [servers.address(1)];
    let serve = async {
        let mut buffer = [0; 512];
        let (len, client) = udp.recv_from(&mut buffer).await.expect("a query");
        let query = Header::of(&buffer[..len]).expect("a header");
        let wrong_id = Header::query(!query.id());
        let wrong = Response::to(ZONE, Type::DS).answer(ZONE, Type::DS, 1, OTHER);
        let mut notify = wrong.message_to(query);
        notify[2] |= Opcode::NOTIFY.0 << 3;
        let mut no_response = wrong.message_to(query);
        no_response[2] &= 0x7f;
        let other_name = Response::to("other.parent.example", Type::DS).answer(ZONE, Type::DS, 1, OTHER);
        let other_type = Response::to(ZONE, Type::CDS).answer(ZONE, Type::DS, 1, OTHER);
        let no_question = [&query.reply().as_bytes()[..4], &[0; 8]].concat();
        for message in [
            wrong.message_to(wrong_id),
            notify,
            no_response,
            other_name.message_to(query),
            other_type.message_to(query),
            no_question,
            vec![1, 2, 3],
            Response::to(ZONE, Type::DS).answer(ZONE, Type::DS, 300, DS).message_to(query),
        ] {
            udp.send_to(&message, client).await.expect("sent");
        }
    };
    let (hosts, engine, zone, timing) = (no_hosts(), Weak::new(), zone(ZONE), timing(0));
    let asked = ask_parents(&hosts, &engine, &zone, &addresses, &timing);
    let (report, ()) = tokio::join!(asked, serve);
    assert_eq!(report.servers[0].found, found(&[DS], Some(300)));
}

/// A resolver for `a.b.c.parent.example`: `b.c.parent.example` is an empty non-terminal.
fn resolver_of_parent() -> Responses {
    resolver(
        vec![
            ("parent.example", Type::NS, rdata("ns1.example")),
            ("parent.example", Type::NS, rdata("alias.example")),
            ("ns1.example", Type::A, vec![127, 0, 0, 2]),
            ("alias.example", Type::CNAME, rdata("ns2.example")),
            ("ns2.example", Type::A, vec![127, 0, 0, 3]),
            ("ns2.example", Type::A, vec![127, 0, 0, 2]),
        ],
        &["b.c.parent.example", "c.parent.example"],
    )
}

#[tokio::test]
async fn the_servers_of_the_parent_are_found_several_labels_up() {
    const DEEP: &str = "a.b.c.parent.example";
    let has = always(Response::to(DEEP, Type::DS).authoritative().answer(DEEP, Type::DS, 60, DS));
    let has_not = always(Response::to(DEEP, Type::DS).authoritative().soa("parent.example"));
    // Names between have no records, and the SOA of the zone that they are in.
    let of_parent = resolver_of_parent();
    let resolver: Responses = Arc::new(move |qname, qtype| {
        let is_between = qname.label_count() > 2 && qtype == Type::NS;
        match is_between {
            true => Some(Response::to(&qname.to_string(), qtype).soa("parent.example")),
            false => of_parent(qname, qtype),
        }
    });
    let servers = Servers::start(vec![resolver, has, has_not]).await;
    let (hosts, _folder) = resolver_at(servers.port);
    let report = ask_parents(&hosts, &Weak::new(), &zone(DEEP), &[], &timing(servers.port)).await;
    assert_eq!((report.parent, report.fault), (Some(name("parent.example")), None));
    let mut answers: Vec<_> = report.servers.into_iter().map(|one| (one.server, one.found)).collect();
    answers.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [(2, found(&[DS], Some(60))), (3, found(&[], None))];
    let expected: Vec<_> =
        expected.into_iter().map(|(last, found)| (servers.address(last).to_string(), found)).collect();
    assert_eq!(answers, expected, "each address once");
    let asked: Vec<_> = servers.received_at(1).iter().map(parsed).collect();
    let ns = asked.iter().filter(|(_, _, qtype)| *qtype == Type::NS).map(|(_, qname, _)| *qname);
    let path = [name("b.c.parent.example"), name("parent.example")];
    assert_eq!(ns.collect::<Vec<_>>(), path, "the SOA saves the query for the name between");
    assert!(asked.iter().all(|(header, ..)| header.recursion_desired()));
}

#[tokio::test]
async fn without_a_parent_no_server_is_asked() {
    let refused: Responses =
        Arc::new(|qname, qtype| Some(Response::to(&qname.to_string(), qtype).rcode(Rcode::SERVFAIL)));
    let servers = Servers::start(vec![refused]).await;
    let (hosts, _folder) = resolver_at(servers.port);
    let report = ask_parents(&hosts, &Weak::new(), &zone(ZONE), &[], &timing(servers.port)).await;
    let fault = report.fault.expect("a fault");
    assert!(fault.contains("the NS records of parent.example. are not known"), "{fault}");
    assert!(fault.contains("SERVFAIL") && report.servers.is_empty(), "{fault}");
    let report = ask_parents(&no_hosts(), &Weak::new(), &zone("."), &[], &timing(1)).await;
    assert_eq!(report.fault.as_deref(), Some("the root zone has no parent"));
}

#[tokio::test]
async fn a_server_without_addresses_is_one_without_an_answer() {
    let records = vec![
        ("parent.example", Type::NS, rdata("ns1.example")),
        ("parent.example", Type::NS, rdata("gone.example")),
        ("ns1.example", Type::A, vec![127, 0, 0, 2]),
    ];
    let servers = Servers::start(vec![resolver(records, &[]), with_ds(&[DS])]).await;
    let (hosts, _folder) = resolver_at(servers.port);
    let report = ask_parents(&hosts, &Weak::new(), &zone(ZONE), &[], &timing(servers.port)).await;
    assert_eq!(report.servers[0].found, found(&[DS], Some(300)));
    assert_eq!(report.servers[1].server, "gone.example.");
    assert!(report.servers[1].found.as_ref().is_err_and(|fault| fault.contains("no such name")));
}

#[test]
fn an_ipv6_address_without_a_route_is_left_out_if_its_servers_have_answered() {
    let one = |address: &str, names: &[usize], found, has_route| {
        let address = SocketAddr::new(address.parse::<IpAddr>().expect("an address"), 53);
        AskedAddress { of: ParentalAddress { address, names: names.to_vec() }, found, has_route }
    };
    let no = || Err("no".to_owned());
    let ok = || found(&[DS], Some(1));
    let names = |asked: Vec<AskedAddress<DsAtServer, String>>| -> Vec<String> {
        without_unreachable(asked).into_iter().map(|one| shown(one.of.address)).collect()
    };
    let both = |found, has_route| {
        vec![one("192.0.2.1", &[0], found, true), one("2001:db8::1", &[0], no(), has_route)]
    };
    assert_eq!(names(both(ok(), false)), ["192.0.2.1"]);
    assert_eq!(names(both(ok(), true)), ["192.0.2.1", "2001:db8::1"], "it has a route");
    assert_eq!(names(both(no(), false)), ["192.0.2.1", "2001:db8::1"], "no address has answered");
    let other = vec![one("192.0.2.1", &[0], ok(), true), one("2001:db8::1", &[1], no(), false)];
    assert_eq!(names(other).len(), 2, "the address of another server");
    let shared = vec![one("192.0.2.1", &[0], ok(), true), one("2001:db8::1", &[0, 1], no(), false)];
    assert_eq!(names(shared).len(), 2, "one of its servers has not answered");
    let configured = vec![one("192.0.2.1", &[], ok(), true), one("2001:db8::1", &[], no(), false)];
    assert_eq!(names(configured).len(), 2, "a configured address");
    let four = vec![one("192.0.2.1", &[0], ok(), true), one("192.0.2.2", &[0], no(), false)];
    assert_eq!(names(four).len(), 2, "an IPv4 address");
}

#[tokio::test]
async fn a_parent_zone_served_here_is_one_of_the_servers() {
    let ns = || ("child.parent.example", Type::NS, rdata("ns.child.parent.example"));
    let records = [ns(), ("child.parent.example", Type::DS, DS.to_vec())];
    let engine = engine_with(&[("parent.example", &records), (ZONE, &[])]);
    let servers = Servers::start(vec![with_ds(&[OTHER])]).await;
    let addresses = [servers.address(1)];
    let ask = async |engine: &Arc<Engine<Served>>| {
        let engine = Arc::downgrade(engine);
        ask_parents(&no_hosts(), &engine, &zone(ZONE), &addresses, &timing(0)).await.servers
    };
    let both = ask(&engine).await;
    assert_eq!((&*both[0].server, &both[0].found), (SERVED_HERE, &found(&[DS], Some(300))));
    assert_eq!(both[1].found, found(&[OTHER], Some(300)));
    // Without a DS, too.
    let both = ask(&engine_with(&[("parent.example", &[ns()]), (ZONE, &[])])).await;
    assert_eq!((&*both[0].server, &both[0].found), (SERVED_HERE, &found(&[], None)));
    // The zone itself, or one that delegates the parent, is not the parent.
    let delegates = [("parent.example", Type::NS, rdata("ns.elsewhere.test"))];
    for zones in [engine_with(&[(ZONE, &[])]), engine_with(&[("example", &delegates)])] {
        assert_eq!(ask(&zones).await.len(), 1);
    }
}

#[tokio::test]
async fn the_zones_here_are_asked_before_a_resolver() {
    let records = [
        ("parent.example", Type::NS, rdata("ns.parent.example")),
        ("ns.parent.example", Type::A, vec![127, 0, 0, 1]),
        ("child.parent.example", Type::NS, rdata("ns.child.parent.example")),
        ("child.parent.example", Type::DS, DS.to_vec()),
    ];
    let engine = engine_with(&[("parent.example", &records)]);
    let servers = Servers::start(vec![with_ds(&[DS])]).await;
    let of_engine = Arc::downgrade(&engine);
    let report = ask_parents(&no_hosts(), &of_engine, &zone(ZONE), &[], &timing(servers.port)).await;
    assert_eq!((report.parent.as_ref(), report.fault.as_ref()), (Some(&name("parent.example")), None));
    assert!(report.is_everywhere(|ds| ds.rdatas == [DS]));
    assert_eq!(report.servers.len(), 2);
}

#[tokio::test]
async fn the_zones_here_for_a_zone_in_a_view_are_those_of_the_view() {
    let records = [("child.parent.example", Type::NS, rdata("ns.test")), (ZONE, Type::DS, DS.to_vec())];
    let inside = catalog_with(&[("parent.example", &records)]);
    let clients = AccessRule { action: AccessAction::Allow, from: Vec::new(), local: None, transports: None };
    let view: ViewName = "inside".parse().expect("the name of a view");
    let rule = ViewRule { name: view.clone(), clients, keys: Vec::new() };
    let clients = Arc::new(ViewClients::new(&[rule]).expect("one view"));
    let views = Some(Arc::new(Views::new(&clients, |_| Arc::clone(&inside))));
    let zones = serving(Zones { views, ..Zones::new(catalog_with(&[])) });
    let engine = Arc::new(Engine::new(zones, Sources::default(), EngineConfig::default()));
    let servers = Servers::start(vec![with_ds(&[])]).await;
    let addresses = [servers.address(1)];
    let lower = name(ZONE).as_name().to_lower();
    for (view, count) in [(Some(&view), 2), (None, 1)] {
        let zone = ZoneName::in_view(lower.as_lower(), view);
        let engine = Arc::downgrade(&engine);
        let report = ask_parents(&no_hosts(), &engine, &zone, &addresses, &timing(0)).await;
        assert_eq!(report.servers.len(), count);
    }
}

/// A resolver for the parent `example` with these DSYNC records.
fn with_dsync(records: Vec<(&'static str, Vec<u8>)>) -> Responses {
    let mut all: Vec<(&str, Type, Vec<u8>)> =
        records.into_iter().map(|(owner, rdata)| (owner, Type::DSYNC, rdata)).collect();
    all.push(("example", Type::NS, rdata("ns.example")));
    all.push(("target.example", Type::A, vec![127, 0, 0, 2]));
    resolver(all, &[])
}

async fn notified(dsync: impl FnOnce(u16) -> Vec<(&'static str, Vec<u8>)>, target: Responses) -> Notified {
    let (mut servers, mut sockets) = Servers::bind(2).await;
    let (udp, tcp) = sockets.remove(0);
    servers.serve(with_dsync(dsync(servers.port)), udp, tcp);
    let (udp, tcp) = sockets.remove(0);
    servers.serve(target, udp, tcp);
    let (hosts, _folder) = resolver_at(servers.port);
    let outcome = notify_parent(&hosts, &Weak::new(), &zone("child.example"), Type::CDS, &timing(1)).await;
    let queries = servers.received_at(1);
    let asked = queries.iter().map(parsed).filter(|query| query.2 == Type::DSYNC);
    Notified { outcome, asked: asked.map(|query| query.1).collect(), notifies: servers.received_at(2) }
}

/// What a notification has led to.
struct Notified {
    outcome: Result<String, String>,
    /// Names whose DSYNC records were asked for.
    asked: Vec<NameBuf>,
    notifies: Vec<Received>,
}

#[tokio::test]
async fn notify_goes_to_the_target_for_the_child() {
    let target = always(Response::to("child.example", Type::CDS));
    let dsync = |port| {
        let unused = ("_dsync.example", dsync(Type::CDS, 1, port, "unused.example"));
        vec![("child._dsync.example", dsync(Type::CDS, 1, port, "target.example")), unused]
    };
    let Notified { outcome, asked, notifies } = notified(dsync, target).await;
    let text = outcome.expect("acknowledged");
    assert!(text.contains("target.example.") && text.contains("acknowledged by 127.0.0.2:"), "{text}");
    assert_eq!(asked, [name("child._dsync.example")]);
    let (header, qname, qtype) = parsed(&notifies[0]);
    assert_eq!((qname, qtype), (name("child.example"), Type::CDS));
    let flags = (header.opcode(), header.authoritative(), header.recursion_desired(), header.counts());
    assert_eq!(flags, (Opcode::NOTIFY, true, false, [1, 0, 0, 0]));
}

#[tokio::test]
async fn notify_goes_to_the_target_for_all_children_where_the_child_has_none() {
    let target = always(Response::to("child.example", Type::CDS).rcode(Rcode::REFUSED));
    let dsync = |port| vec![("_dsync.example", dsync(Type::CDS, 1, port, "target.example"))];
    let Notified { outcome, asked, notifies } = notified(dsync, target).await;
    let text = outcome.expect_err("refused");
    assert!(text.contains("the response of 127.0.0.2 is REFUSED"), "{text}");
    assert_eq!(asked, [name("child._dsync.example"), name("_dsync.example")]);
    assert_eq!(notifies.len(), 1);
}

#[tokio::test]
async fn without_a_target_no_notify_is_sent() {
    let target = always(Response::to("child.example", Type::CDS));
    // A record of the child for another type: the one for all children does not apply.
    let dsync = |port| {
        let unused = ("_dsync.example", dsync(Type::CDS, 1, port, "target.example"));
        vec![("child._dsync.example", dsync(Type::CSYNC, 1, port, "target.example")), unused]
    };
    let Notified { outcome, notifies, .. } = notified(dsync, target).await;
    let fault = outcome.expect_err("no target");
    assert!(fault.contains("has no DSYNC record for NOTIFY(CDS)"), "{fault}");
    assert!(notifies.is_empty());
}
