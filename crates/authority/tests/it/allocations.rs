//! No heap allocation on the query path: once all buffers exist, answering allocates nothing, for any answer.
//!
//! The allocator of this program counts for the threads that request it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Instant;

use authority::{AnswerLocation, Ask, HashingLimit, PASSES, Scratch, answer};
use testkit::{Chain, everything, key, name, sign};
use wire::hash::HashedName;
use wire::message::{Builder, Compressor, Header};
use wire::{Class, Rcode, Type};
use zone::catalog::ZoneEntry;
use zone::{Catalog, Change};

struct Counting;

thread_local! {
    /// Allocations of this thread, while it counts them.
    static COUNT: Cell<Option<usize>> = const { Cell::new(None) };
}

fn count() {
    // A thread that ends has no counter any more, and counts nothing.
    let _ = COUNT.try_with(|count| count.set(count.get().map(|n| n + 1)));
}

// SAFETY: every call goes to the system's allocator with its arguments; counting allocates nothing, since a
// `Cell` that is made at compile time needs neither initialising nor dropping.
unsafe impl GlobalAlloc for Counting {
    /// # Safety
    /// As for [`GlobalAlloc::alloc`].
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    /// # Safety
    /// As for [`GlobalAlloc::dealloc`].
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract, which is the same; `at` came from the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }

    /// # Safety
    /// As for [`GlobalAlloc::realloc`].
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the contract, which is the same; `at` came from the system's allocator.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the result of `work`, and how often it allocates.
fn counted<T>(work: impl FnOnce() -> T) -> (T, usize) {
    COUNT.set(Some(0));
    let done = work();
    (done, COUNT.replace(None).expect("counting"))
}

#[test]
fn the_allocator_counts() {
    assert_eq!(counted(|| Box::new(1)).1, 1);
    assert_eq!(counted(|| 1).1, 0);
}

#[test]
fn answering_takes_no_memory() {
    let nsec3 = |opt_out, iterations, salt: &[u8]| Chain::Nsec3 { opt_out, iterations, salt: salt.to_vec() };
    let zones = [
        ("plain.", None),
        ("nsec.", Some(Chain::Nsec)),
        ("nsec3.", Some(nsec3(false, 0, &[]))),
        ("salted.", Some(nsec3(true, 5, &[9; 40]))),
    ];
    let build = |(apex, chain): &(&str, Option<Chain>)| {
        let records = everything::records(apex);
        let records =
            chain.as_ref().map_or(records.clone(), |chain| sign(name(apex).as_name(), &records, chain));
        Change::Serve(testkit::build(name(apex).as_name(), &key(), &records).into())
    };
    let catalog = Catalog::new(&key()).with(zones.iter().map(build)).expect("zones of one key");
    let long = format!("{}.{0}.{0}.{}.circle", "x".repeat(63), "y".repeat(38));
    let questions = [
        ("exact", "host", Type::A, Rcode::NOERROR),
        ("wildcard", "x.wild", Type::A, Rcode::NOERROR),
        ("chain of CNAME", "c0", Type::A, Rcode::NOERROR),
        ("chain of DNAME", "x.d", Type::A, Rcode::NOERROR),
        ("DNAME that makes longer and longer names", "x.circle", Type::A, Rcode::NOERROR),
        ("DNAME that makes too long a name", long.as_str(), Type::A, Rcode::YXDOMAIN),
        ("referral", "www.cut", Type::A, Rcode::NOERROR),
        ("referral with DS", "www.secure", Type::A, Rcode::NOERROR),
        ("DS of a cut", "cut", Type::DS, Rcode::NOERROR),
        ("no such name", "nothing.here.at.all", Type::A, Rcode::NXDOMAIN),
        ("no such name below a CNAME's wildcard", "x.y.host", Type::A, Rcode::NXDOMAIN),
        ("no such type", "host", Type::TXT, Rcode::NOERROR),
        ("no such type at a wildcard", "x.wild", Type::TXT, Rcode::NOERROR),
        ("hosts with addresses, some of a wildcard", "mx", Type::MX, Rcode::NOERROR),
        ("the same under a wildcard", "y.mxs", Type::MX, Rcode::NOERROR),
        ("the same behind a CNAME", "far", Type::MX, Rcode::NOERROR),
        ("a service at its own name", "svc", Type::HTTPS, Rcode::NOERROR),
        ("everything", "host", Type::ANY, Rcode::NOERROR),
        ("signatures", "host", Type::RRSIG, Rcode::NOERROR),
    ];
    let (mut scratch, mut names, mut buf) = (Scratch::new(), Compressor::small(), vec![0; 65_535]);
    let (key, mut qname) = (key(), HashedName::new());
    for (apex, _) in &zones {
        for (what, label, qtype, rcode) in &questions {
            for (dnssec_ok, size) in [(false, 512), (true, 65_535)] {
                let asked = name(&format!("{label}.{apex}"));
                let ((), allocations) = counted(|| {
                    qname.set(&key, asked.as_name());
                    let mut location =
                        AnswerLocation::find(&catalog, &qname, *qtype, dnssec_ok).expect("a zone");
                    let _ = (0..PASSES).all(|pass| location.prefetch(&catalog, pass, &qname));
                    let mut b = Builder::new(&mut buf, size, Header::query(1).reply(), &mut names);
                    b.question(asked.as_name(), *qtype, Class::IN).expect("fits");
                    let (name, catalog, key) = (asked.as_name(), &catalog, &key);
                    let hashing = HashingLimit::at(Instant::now());
                    let (qname, qtype, max_chain) = (&qname, *qtype, 16);
                    let (resolves, may_enter) = (&|| false, &|_: &ZoneEntry| true);
                    let ask = Ask {
                        name,
                        qname,
                        qtype,
                        dnssec_ok,
                        compact_ok: &|| false,
                        catalog,
                        key,
                        resolves,
                        may_enter,
                        max_chain,
                        hashing,
                    };
                    answer(&ask, &location, &mut b, &mut scratch).expect("a snapshot");
                    assert!(b.rcode() == *rcode || b.header().truncated() && !dnssec_ok, "{what} of {apex}");
                    b.finish();
                });
                assert_eq!(allocations, 0, "{what} of {apex}, DO {dnssec_ok}");
            }
        }
    }
}
