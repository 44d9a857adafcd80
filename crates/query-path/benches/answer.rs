//! The cost of answering without the kernel: batches of 64 queries through a worker, per workload.
//! `cargo bench -p query-path`; one iteration is one batch.

use std::hint::black_box;
use std::sync::Arc;
use std::task::Waker;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use query_path::{BATCH, Engine, EngineConfig, Sources, Worker, WorkerState, Zones};
use transport::{Packets, Transport};
use wire::hash::HashKey;
use wire::message::Header;
use wire::{Name, NameBuf, Ttl, Type};
use zone::catalog::{Catalog, Change};
use zone::store::ZoneBuilder;

/// Delegations in the large zone; NOMEN_BENCH_NAMES overrides it.
const NAMES: u32 = 1_000_000;

/// The TTL of every record.
const HOUR: Ttl = Ttl::from_secs(3600);

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn rdata(host: &str) -> Vec<u8> {
    name(host).as_name().as_wire().to_vec()
}

fn soa() -> Vec<u8> {
    let mut rdata = [rdata("ns1.example."), rdata("hostmaster.example.")].concat();
    for number in [1u32, 3600, 900, 604_800, 300] {
        rdata.extend(number.to_be_bytes());
    }
    rdata
}

/// A zone with `names` delegations of two name servers each, some with glue.
fn delegations(key: &HashKey, names: u32) -> Arc<zone::store::Zone> {
    let apex = name("bench.");
    let mut builder = ZoneBuilder::new(apex.as_name(), key);
    let mut add = |owner: Name<'_>, t, rdata: &[u8]| builder.add(owner, t, HOUR, rdata).expect("a record");
    add(apex.as_name(), Type::SOA, &soa());
    add(apex.as_name(), Type::NS, &rdata("ns1.example."));
    for i in 0..names {
        let child = name(&format!("d{i:07}.bench."));
        for host in ["ns1", "ns2"] {
            let host = match i % 8 {
                0 => format!("{host}.d{i:07}.bench."),
                _ => format!("{host}.hoster{}.example.", i % 5000),
            };
            add(child.as_name(), Type::NS, &rdata(&host));
        }
        if i % 8 == 0 {
            for (n, host) in ["ns1", "ns2"].iter().enumerate() {
                let glue = NameBuf::prepend(host.as_bytes(), child.as_name()).expect("a name");
                add(glue.as_name(), Type::A, &[192, 0, 2, n as u8]);
            }
        }
    }
    Arc::new(builder.finish().expect("a zone"))
}

/// A zone of a few names.
fn small(key: &HashKey, apex: &str) -> Arc<zone::store::Zone> {
    let mut builder = ZoneBuilder::new(name(apex).as_name(), key);
    let mut add = |host: &str, t, rdata: &[u8]| {
        let owner = name(&format!("{host}{apex}"));
        builder.add(owner.as_name(), t, HOUR, rdata).expect("a record")
    };
    add("", Type::SOA, &soa());
    add("", Type::NS, &rdata(&format!("ns1.{apex}")));
    add("", Type::MX, &[&[0, 10], rdata(&format!("mail.{apex}")).as_slice()].concat());
    add("ns1.", Type::A, &[192, 0, 2, 1]);
    add("mail.", Type::A, &[192, 0, 2, 25]);
    add("www.", Type::A, &[192, 0, 2, 80]);
    Arc::new(builder.finish().expect("a zone"))
}

fn query(qname: &str, qtype: Type) -> Vec<u8> {
    let mut header = Header::query(7);
    header.set_counts([1, 0, 0, 1]);
    let opt: &[u8] = b"\0\0\x29\x04\xd0\0\0\0\0\0\0";
    [header.as_bytes().as_slice(), &rdata(qname), &qtype.0.to_be_bytes(), &[0, 1], opt].concat()
}

/// Answers `queries` batch by batch, over and over.
fn run(c: &mut Criterion, label: &str, engine: &Arc<Engine<Zones>>, queries: &[Vec<u8>]) {
    let account = Arc::new(WorkerState::new(Waker::noop().clone()));
    let mut worker = Worker::new(Arc::clone(engine), account);
    let batch = |queries: &[Vec<u8>]| {
        let mut packets = Packets::new(Transport::Udp, 4096);
        queries.iter().for_each(|query| packets.push(query));
        packets
    };
    let mut batches: Vec<Packets> = queries.chunks_exact(BATCH).map(batch).collect();
    let mut next = (0..batches.len()).cycle();
    let mut group = c.benchmark_group("batch-of-64");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function(label, |b| {
        b.iter(|| {
            let batch = &mut batches[next.next().expect("queries")];
            batch.ask(&mut worker);
            black_box(batch.reply(BATCH - 1).expect("a reply"));
        })
    });
    group.finish();
}

fn answers(c: &mut Criterion) {
    let names = std::env::var("NOMEN_BENCH_NAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(NAMES);
    let key = HashKey::new([0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3211, 42]);
    let serving = |zones: Vec<Arc<zone::store::Zone>>| {
        let catalog = Catalog::new(&key).with(zones.into_iter().map(Change::Serve));
        let catalog = Arc::new(catalog.expect("zones of one key"));
        Arc::new(Engine::new(Zones::new(catalog), Sources::default(), EngineConfig::default()))
    };
    let engine = serving(vec![small(&key, "example.com."), delegations(&key, names)]);
    // A fixed walk over the names, in an order that no cache prefetcher predicts.
    let pick = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as u32 % names;
    let many = |make: &dyn Fn(u32) -> String| -> Vec<Vec<u8>> {
        (0..BATCH as u64 * 4096).map(|i| query(&make(pick(i)), Type::A)).collect()
    };
    run(c, "one-name", &engine, &vec![query("www.example.com.", Type::A); BATCH]);
    run(c, "referrals", &engine, &many(&|i| format!("www.d{i:07}.bench.")));
    run(c, "nxdomain", &engine, &many(&|i| format!("x{i:07}.bench.")));
    drop(engine);
    for zones in [10_000, 100_000] {
        let engine = serving((0..zones).map(|i| small(&key, &format!("z{i:06}.test."))).collect());
        let host = |i: u32| ["www.", "mail.", "", "nothing."][i as usize / 7 % 4];
        run(c, &format!("{zones}-zones"), &engine, &many(&|i| format!("{}z{:06}.test.", host(i), i % zones)));
    }
}

criterion_group!(benches, answers);
criterion_main!(benches);
