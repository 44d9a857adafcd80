//! Views: a server with views answers each client as a server that has exactly the zones of that client.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use proptest::prelude::*;
use query_path::access::{AccessAction, AccessRule};
use query_path::{
    Engine, EngineConfig, Sources, ViewClients, ViewRule, Views, Worker, WorkerState, Zones, ZonesConfig,
};
use testkit::choices::Choices;
use testkit::model::ModelZone;
use testkit::packets::batch;
use testkit::{ModelRecord, key, random};
use transport::{Outcome, Packets, Transport};
use wire::NameBuf;
use zone::catalog::{Catalog, Change};

/// Zones by their names.
type NamedZones = BTreeMap<NameBuf, Vec<ModelRecord>>;

/// A client of no view, and one of each view.
const CLIENTS: [&str; 3] = ["192.0.2.1:5300", "10.0.0.1:5300", "[2001:db8::1]:5300"];
const NETWORKS: [&str; 2] = ["10.0.0.0/8", "2001:db8::/32"];

fn changes(zones: &NamedZones) -> Vec<Change> {
    let change = |(apex, records): (&NameBuf, &Vec<ModelRecord>)| {
        Change::Serve(testkit::build(apex.as_name(), &key(), records).into())
    };
    zones.iter().map(change).collect()
}

fn worker(zones: Zones) -> Worker<Zones> {
    let engine = Arc::new(Engine::new(zones, Sources::default(), EngineConfig::default()));
    Worker::new(engine, Arc::new(WorkerState::new(Waker::noop().clone())))
}

/// A server with these zones outside views and in each view.
fn with_views(outside: &NamedZones, of_views: &[NamedZones; 2]) -> Worker<Zones> {
    let catalog = Arc::new(Catalog::new(&key()).with(changes(outside)).expect("zones of one key"));
    let rules = [0, 1].map(|view| ViewRule {
        name: format!("view-{view}").parse().expect("the name of a view"),
        clients: AccessRule {
            action: AccessAction::Allow,
            from: vec![NETWORKS[view].parse().expect("a network")],
            local: None,
            transports: None,
        },
        keys: Vec::new(),
    });
    let clients = Arc::new(ViewClients::new(&rules).expect("two views"));
    let mut own = of_views.iter();
    let views = Views::new(&clients, |_| {
        let own = changes(own.next().expect("a view"));
        Arc::new(catalog.over(&catalog, &catalog, [], own).expect("zones of one key"))
    });
    worker(Zones { catalog, views: Some(Arc::new(views)), access: None, config: ZonesConfig::default() })
}

/// A server with exactly these zones.
fn with(zones: &NamedZones) -> Worker<Zones> {
    let catalog = Catalog::new(&key()).with(changes(zones)).expect("zones of one key");
    worker(Zones::new(Arc::new(catalog)))
}

/// The replies to packets, each of the client with its number.
fn ask(
    worker: &mut Worker<Zones>,
    stream: bool,
    room: usize,
    packets: &[(usize, &Vec<u8>)],
) -> Vec<Option<Vec<u8>>> {
    let mut asked = Packets::new(if stream { Transport::Tcp } else { Transport::Udp }, room);
    let local: SocketAddr = "192.0.2.53:53".parse().expect("an address");
    for (client, packet) in packets {
        asked.push_from(CLIENTS[*client].parse().expect("an address"), local, packet);
    }
    asked.ask(worker);
    let reply = |i| {
        let reply = asked.reply(i).map(<[u8]>::to_vec);
        reply.filter(|_| matches!(asked.take_outcome(i), Some(Outcome::Reply(1..))))
    };
    (0..packets.len()).map(reply).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]
    #[test]
    fn each_client_is_answered_as_by_a_server_with_exactly_its_zones(
        outside in random::zones(),
        of_views in [random::zones(), random::zones()],
        bytes in prop::collection::vec(any::<u8>(), 0..1500),
        clients in prop::collection::vec(0..3usize, 64),
    ) {
        let outside: NamedZones = outside.into_iter().collect();
        let of_views = of_views.map(|zones| zones.into_iter().collect::<NamedZones>());
        let over = |own: &NamedZones| {
            let both = outside.iter().chain(own);
            both.map(|(apex, records)| (*apex, records.clone())).collect::<NamedZones>()
        };
        let mut alone =
            [with(&outside), with(&over(&of_views[0])), with(&over(&of_views[1]))];
        let mut together = with_views(&outside, &of_views);
        let all = of_views.iter().chain([&outside]).flatten();
        let names: Vec<NameBuf> =
            all.flat_map(|(apex, records)| ModelZone::new(apex.as_name(), records).all()).collect();
        let batch = batch(&mut Choices::new(&bytes), &names);
        let packets: Vec<_> = clients.into_iter().cycle().zip(&batch.packets).collect();
        let replies = ask(&mut together, batch.stream, batch.room, &packets);
        for (at, (client, packet)) in packets.iter().enumerate() {
            let expected = ask(&mut alone[*client], batch.stream, batch.room, &[(*client, packet)]).remove(0);
            prop_assert_eq!(&replies[at], &expected, "client {} packet {}", client, packet.escape_ascii());
        }
    }
}
