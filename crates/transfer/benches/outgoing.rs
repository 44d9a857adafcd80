//! Writes all AXFR messages of a zone similar to that of a top-level domain; `TRANSFER_BENCH_RECORDS` sets
//! the number of records. `TRANSFER_BENCH_ZONE` names a zone file to use instead, and `TRANSFER_BENCH_APEX`
//! its zone.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use testkit::tld::Tld;
use transfer::outgoing::{TransferFrame, axfr};
use transfer::tsig::{TsigAlgorithm, TsigKey, TsigKeys, find, sign_request, verify};
use transport::Next;
use wire::hash::HashKey;
use wire::message::{Header, MAX_MESSAGE};
use wire::{NameBuf, Type, UnixTime};
use zone::{LoadConfig, Zone, ZoneBuilder};

const NOW: UnixTime = UnixTime::from_secs(1);

fn build(apex: NameBuf) -> Zone {
    let key = HashKey::new([1, 2, 3]);
    if let Ok(file) = std::env::var("TRANSFER_BENCH_ZONE") {
        let loaded = zone::load_file(file.as_ref(), apex.as_name(), &key, &LoadConfig::default());
        return loaded.expect("a zone").zone;
    }
    let records =
        std::env::var("TRANSFER_BENCH_RECORDS").ok().and_then(|n| n.parse().ok()).unwrap_or(400_000);
    let mut builder = ZoneBuilder::new(apex.as_name(), &key);
    for record in Tld::new(apex, records) {
        builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata).expect("a record");
    }
    builder.finish().expect("a zone")
}

/// The frame of the response to a request, signed or not.
fn frame(apex: NameBuf, signed: bool, limit: usize) -> TransferFrame {
    let question = [apex.as_name().as_wire(), &Type::AXFR.0.to_be_bytes(), &[0, 1]].concat();
    let mut request = [Header::query(1).as_bytes().as_slice(), &question].concat();
    if !signed {
        return TransferFrame::answering(&request, limit).expect("a request");
    }
    let key = TsigKey::new(apex.as_name(), TsigAlgorithm::HmacSha256, b"a secret").expect("a key");
    let keys = TsigKeys::new([key.clone()]).expect("one key");
    let len = request.len();
    request.resize(len + 300, 0);
    let (len, _) = sign_request(&Arc::new(key), &mut request, len, NOW).expect("room");
    request.truncate(len);
    let at = find(&request).expect("a message").expect("TSIG");
    let signer = verify(&request, at, &keys, NOW).expect("a good signature").signer();
    TransferFrame::answering(&request, limit).expect("a request").signed(signer, Box::new(|| NOW))
}

/// Writes all messages; returns their number and bytes.
fn send(zone: &Arc<Zone>, frame: TransferFrame, out: &mut [u8]) -> (usize, usize) {
    let (mut stream, mut messages, mut bytes) = (axfr(zone.clone(), frame), 0, 0);
    loop {
        match stream.next(black_box(out)) {
            Next::Message(len) => (messages, bytes) = (messages + 1, bytes + len),
            Next::End => return (messages, bytes),
            Next::Abort => panic!("aborted"),
        }
    }
}

/// Processor time of this thread, in seconds.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn whole_zones(c: &mut Criterion) {
    let apex = std::env::var("TRANSFER_BENCH_APEX").unwrap_or("test.".to_owned());
    let apex: NameBuf = apex.parse().expect("a name");
    let zone = Arc::new(build(apex));
    let mut out = vec![0; MAX_MESSAGE];
    let mut group = c.benchmark_group("axfr");
    group.sample_size(10).throughput(Throughput::Elements(zone.record_count()));
    for (limit, signed) in
        [(8_192, false), (16_384, false), (20_480, false), (MAX_MESSAGE, false), (16_384, true)]
    {
        let before = cpu_seconds();
        let (messages, bytes) = send(&zone, frame(apex, signed, limit), &mut out);
        let cpu = cpu_seconds() - before;
        let kind = if signed { "signed" } else { "plain" };
        println!(
            "{kind}, up to {limit} bytes: {} records, {messages} messages, {bytes} bytes, {cpu:.3} s of CPU",
            zone.record_count()
        );
        group.bench_function(format!("{kind}/{limit}"), |b| {
            b.iter(|| send(&zone, frame(apex, signed, limit), &mut out));
        });
    }
    group.finish();
}

criterion_group!(benches, whole_zones);
criterion_main!(benches);
