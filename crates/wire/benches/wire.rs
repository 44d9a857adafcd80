//! The pieces every query passes through: comparing, lowering and hashing names, reading and writing
//! compressed ones, parsing a query, building an answer. `cargo bench -p wire`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Compressor, Header, Owner, Parser, Section};
use wire::{Class, NameBuf, Type};

const SHORT: &str = "a.example.";
const MEDIUM: &str = "www.some-customer.example.com.";
const LONG: &str = "a-rather-long-label-with-many-letters.another-one-of-its-kind.and-one-more.department.university.example.org.";

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn compare(c: &mut Criterion) {
    let mut group = c.benchmark_group("name-compare");
    for (label, text) in [("short", SHORT), ("medium", MEDIUM), ("long", LONG)] {
        let (one, same) = (name(text), name(text));
        let upper = name(&text.to_uppercase());
        let different = name(&text.replacen('a', "b", 1));
        for (kind, other) in [("equal", same), ("case", upper), ("different", different)] {
            group.bench_function(BenchmarkId::new(kind, label), |b| {
                b.iter(|| black_box(one.as_name()) == black_box(other.as_name()))
            });
        }
        group.bench_function(BenchmarkId::new("canonical-order", label), |b| {
            b.iter(|| black_box(one.as_name()).canonical_cmp(black_box(upper.as_name())))
        });
    }
    group.finish();
}

fn lower_and_hash(c: &mut Criterion) {
    let key = HashKey::new([1, 2, 3]);
    let mut group = c.benchmark_group("lower-and-hash-every-suffix");
    for (label, text) in [("short", SHORT), ("medium", MEDIUM), ("long", LONG)] {
        let name = name(text);
        let mut hashed = HashedName::new();
        group.bench_function(label, |b| {
            b.iter(|| {
                hashed.set(&key, black_box(name.as_name()));
                hashed.hash(0)
            })
        });
    }
    group.finish();
}

/// A referral with thirteen name servers and their addresses, as the root gives it.
fn referral(buf: &mut [u8], names: &mut Compressor) -> usize {
    let mut b = Builder::new(buf, 4096, Header::query(1), names);
    let qname = name(MEDIUM);
    b.question(qname.as_name(), Type::A, Class::IN).expect("fits");
    b.learn(qname.as_name(), 12);
    let com = name("com.");
    let servers: Vec<NameBuf> =
        (b'a'..=b'm').map(|c| name(&format!("{}.gtld-servers.net.", c as char))).collect();
    for server in &servers {
        let rdata = server.as_name().as_wire();
        b.record(Section::Authority, Owner::Name(com.as_name()), Type::NS, Class::IN, 172_800, rdata)
            .expect("fits");
    }
    for server in &servers {
        let owner = Owner::Name(server.as_name());
        b.record(Section::Additional, owner, Type::A, Class::IN, 172_800, &[192, 5, 6, 30]).expect("fits");
    }
    b.finish()
}

fn messages(c: &mut Criterion) {
    let mut names = Compressor::small();
    let mut buf = vec![0; 4096];
    c.bench_function("build-referral-compressed", |b| b.iter(|| referral(black_box(&mut buf), &mut names)));

    let len = referral(&mut buf, &mut names);
    let message = &buf[..len];
    c.bench_function("parse-referral-and-decompress-owners", |b| {
        b.iter(|| {
            let (header, mut parser) = Parser::new(black_box(message)).expect("header");
            parser.question().expect("question");
            let records: u32 = header.counts()[1..].iter().map(|&n| n as u32).sum();
            let mut octets = 0;
            for _ in 0..records {
                let record = parser.record().expect("record");
                octets += parser.name_at(record.owner_at).expect("name").as_name().len();
            }
            octets
        })
    });

    let mut query = Header::query(1).octets().to_vec();
    query.extend_from_slice(name(MEDIUM).as_name().as_wire());
    query.extend_from_slice(&[0, 1, 0, 1]);
    c.bench_function("parse-query", |b| {
        b.iter(|| {
            let (_, mut parser) = Parser::new(black_box(&query)).expect("header");
            parser.question().expect("question").qtype
        })
    });
}

criterion_group!(benches, compare, lower_and_hash, messages);
criterion_main!(benches);
