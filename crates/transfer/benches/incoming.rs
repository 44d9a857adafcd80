//! Receives an AXFR of a zone similar to that of a top-level domain; `TRANSFER_BENCH_RECORDS` sets the number
//! of records. Measures reading the messages, and building the zone from their records.

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use testkit::tld::Tld;
use transfer::incoming::{AskedFor, IncomingTransfer, Received, ReceivedZone, SentRequest, TransferLimits};
use transfer::outgoing::{DEFAULT_LIMIT, TransferFrame, axfr};
use transport::Next;
use wire::hash::HashKey;
use wire::message::{Header, MAX_MESSAGE};
use wire::{NameBuf, Type, UnixTime};
use zone::ZoneBuilder;

const ID: u16 = 1;

/// The messages of a transfer, and their number of records.
fn messages(apex: NameBuf, key: &HashKey) -> (Vec<Vec<u8>>, u64) {
    let records =
        std::env::var("TRANSFER_BENCH_RECORDS").ok().and_then(|n| n.parse().ok()).unwrap_or(400_000);
    let mut builder = ZoneBuilder::new(apex.as_name(), key);
    for record in Tld::new(apex, records) {
        builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata).expect("a record");
    }
    let zone = Arc::new(builder.finish().expect("a zone"));
    let question = [apex.as_name().as_wire(), &Type::AXFR.0.to_be_bytes(), &[0, 1]].concat();
    let request = [Header::query(ID).as_bytes().as_slice(), &question].concat();
    let mut stream =
        axfr(zone.clone(), TransferFrame::answering(&request, DEFAULT_LIMIT).expect("a request"));
    let (mut out, mut all) = (vec![0; MAX_MESSAGE], Vec::new());
    while let Next::Message(len) = stream.next(&mut out) {
        all.push(out[..len].to_vec());
    }
    (all, zone.record_count())
}

fn take(apex: NameBuf, key: &HashKey, messages: &[Vec<u8>]) -> ReceivedZone {
    let request = SentRequest { id: ID, apex, asked: AskedFor::Axfr, datagram: false };
    let mut transfer = IncomingTransfer::new(request, key, TransferLimits::default(), None);
    for message in messages {
        if let Some(Received::Zone(zone)) =
            transfer.message(message, UnixTime::EPOCH).expect("a good transfer")
        {
            return zone;
        }
    }
    panic!("no end");
}

fn whole_zones(c: &mut Criterion) {
    let (apex, key): (NameBuf, _) = ("test.".parse().expect("a name"), HashKey::new([1, 2, 3]));
    let (messages, records) = messages(apex, &key);
    let mut group = c.benchmark_group("axfr-in");
    group.sample_size(10).throughput(Throughput::Elements(records));
    group.bench_function("messages", |b| b.iter(|| take(apex, &key, &messages)));
    group.bench_function("zone", |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            for _ in 0..times {
                let received = take(apex, &key, &messages);
                let begin = Instant::now();
                let zone = received.build().expect("a zone");
                spent += begin.elapsed();
                assert_eq!(zone.record_count(), records);
            }
            spent
        });
    });
    group.finish();
}

criterion_group!(benches, whole_zones);
criterion_main!(benches);
