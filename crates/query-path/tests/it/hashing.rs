//! Denials of zones with many NSEC3 iterations, whose share of a worker's time is limited.

use std::sync::Arc;
use std::task::Waker;

use query_path::{Engine, EngineConfig, Sources, Worker, WorkerState, Zones, ZonesConfig};
use testkit::{Chain, everything, key, name, sign};
use transport::{MAX_MESSAGE, Packets, Transport};
use wire::{Rcode, Type};
use zone::catalog::{Catalog, Change};

use crate::support::{OPT_NSID, query, said};

/// A worker for a zone with 2500 iterations, one with 100, and one with 100 and the longest salt.
fn worker(nsec3_rounds: u32) -> Worker<Zones> {
    let serve = |apex: &str, iterations, salt| {
        let chain = Chain::Nsec3 { opt_out: false, iterations, salt: vec![7; salt] };
        let apex = name(apex);
        let records = sign(apex.as_name(), &everything::records(&apex.to_string()), &chain);
        Change::Serve(testkit::build(apex.as_name(), &key(), &records).into())
    };
    let changes = [serve("costly.", 2500, 0), serve("usual.", 100, 0), serve("salted.", 100, 255)];
    let catalog = Catalog::new(&key()).with(changes).expect("zones of one key");
    let mut zones = Zones::new(Arc::new(catalog));
    zones.config = ZonesConfig { nsec3_rounds, ..zones.config };
    let engine = Engine::new(zones, Sources::default(), EngineConfig::default());
    Worker::new(Arc::new(engine), Arc::new(WorkerState::new(Waker::noop().clone())))
}

/// The response code and the extended error of the reply; with DNSSEC records or without.
fn ask(worker: &mut Worker<Zones>, qname: &str, dnssec_ok: bool) -> (Rcode, Option<u16>) {
    let opt = if dnssec_ok { OPT_NSID } else { b"" };
    let mut packets = Packets::new(Transport::Tcp, MAX_MESSAGE);
    packets.push(&query(qname, Type::A, opt));
    packets.ask(worker);
    let said = said(packets.reply(0).expect("a reply"));
    (said.rcode, said.error)
}

#[test]
fn a_zone_with_many_iterations_took_the_time_of_all_others() {
    // No rounds are left, as after a flood.
    let mut worker = worker(0);
    assert_eq!(ask(&mut worker, "nosuch.costly.", true), (Rcode::SERVFAIL, Some(27)));
    assert_eq!(worker.stats().hashing_refused.get(), 1);
    // Answers that need no hash are not limited, nor are other zones.
    assert_eq!(ask(&mut worker, "nosuch.costly.", false), (Rcode::NXDOMAIN, None));
    assert_eq!(ask(&mut worker, "host.costly.", true), (Rcode::NOERROR, None));
    assert_eq!(ask(&mut worker, "nosuch.usual.", true), (Rcode::NXDOMAIN, None));
    assert_eq!(worker.stats().hashing_refused.get(), 1);
    // Its hashes take five times as many blocks.
    assert_eq!(ask(&mut worker, "nosuch.salted.", true), (Rcode::SERVFAIL, Some(27)));
}

#[test]
fn denials_of_costly_zones_are_answered_within_the_limit() {
    let mut worker = worker(ZonesConfig::default().nsec3_rounds);
    assert_eq!(ask(&mut worker, "nosuch.costly.", true), (Rcode::NXDOMAIN, None));
}
