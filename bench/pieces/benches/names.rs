//! Names in messages, compressed and decompressed by `wire` and label by label: `cargo bench -p nomen-pieces
//! --bench names`. Both write the same bytes and read the same names.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nomen_pieces::by_label::{Suffixes, read};
use nomen_pieces::messages::{chained, hosts, zone_names};
use wire::NameBuf;
use wire::message::{Builder, Compressor, HEADER_LEN, Header, Offset, Parser};

/// Size of a message in bytes.
const ROOM: usize = 65_535;

/// Returns the names to write: those of an answer, many hosts that share suffixes, a message of a transfer.
fn lists() -> [(&'static str, Vec<NameBuf>); 3] {
    [
        ("an answer's 14 names", hosts(14)),
        ("100 hosts", hosts(100)),
        ("a transfer's 1,500 names", zone_names(1500)),
    ]
}

fn write(buf: &mut [u8], compressor: &mut Compressor, names: &[NameBuf]) -> (usize, Vec<Offset>) {
    let mut builder = Builder::new(buf, ROOM, Header::query(1), compressor);
    let places = names.iter().filter_map(|name| builder.name(name.as_name()).ok()).collect();
    (builder.finish(), places)
}

fn compressed(c: &mut Criterion) {
    for (what, names) in lists() {
        let mut group = c.benchmark_group(format!("compress {what}"));
        group.throughput(Throughput::Elements(names.len() as u64));
        let mut buf = vec![0; ROOM];
        let mut compressor = if names.len() > 20 { Compressor::large() } else { Compressor::small() };
        group.bench_function("wire", |b| {
            b.iter(|| {
                let mut builder = Builder::new(black_box(&mut buf), ROOM, Header::query(1), &mut compressor);
                for name in &names {
                    black_box(builder.name(black_box(name.as_name())).is_ok());
                }
                builder.finish()
            });
        });
        let (mut message, mut suffixes) = (Vec::with_capacity(ROOM), Suffixes::default());
        group.bench_function("by label", |b| {
            b.iter(|| {
                suffixes.clear();
                message.clear();
                message.extend_from_slice(&[0; HEADER_LEN]);
                names.iter().for_each(|name| suffixes.write(&mut message, black_box(name.as_name())));
                black_box(message.len())
            });
        });
    }
}

fn decompressed(c: &mut Criterion) {
    let mut cases: Vec<(String, Vec<u8>, Vec<Offset>)> = Vec::new();
    for pointers in [0, 1, 5, 9] {
        let (message, at) = chained(pointers);
        cases.push((format!("ten labels, {pointers} pointers"), message, vec![at]));
    }
    for (what, names) in lists() {
        let mut buf = vec![0; ROOM];
        let (length, places) = write(&mut buf, &mut Compressor::large(), &names);
        cases.push((what.to_owned(), buf[..length].to_vec(), places));
    }
    for (what, message, places) in cases {
        let mut group = c.benchmark_group(format!("decompress {what}"));
        group.throughput(Throughput::Elements(places.len() as u64));
        group.bench_function("wire", |b| {
            b.iter(|| {
                let Ok((_, mut parser)) = Parser::new(black_box(&message)) else { return 0 };
                let length =
                    |at: &Offset| parser.name_at(*at).map_or(0, |name| black_box(name).as_name().len());
                places.iter().map(length).sum::<usize>()
            });
        });
        group.bench_function("by label", |b| {
            let length =
                |at: &Offset| read(black_box(&message), at.index()).map_or(0, |name| black_box(name).len());
            b.iter(|| places.iter().map(length).sum::<usize>());
        });
    }
}

criterion_group!(benches, compressed, decompressed);
criterion_main!(benches);
