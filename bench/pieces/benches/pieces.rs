//! Times every piece: `cargo bench -p nomen-pieces`, with a part of a name after `--` to select some. The
//! program of this crate counts the instructions of the same pieces.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};

fn pieces(c: &mut Criterion) {
    for mut piece in nomen_pieces::all() {
        c.bench_function(&piece.name, |b| b.iter(|| black_box((piece.run)())));
    }
}

criterion_group!(benches, pieces);
criterion_main!(benches);
