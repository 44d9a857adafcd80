//! Names resolved step by step, on virtual time, in a small Internet that a scenario describes.
//!
//! Each file of `tests/iterate` holds scenarios, a line for each thing that is set up, done or expected. What
//! stands before the first scenario is common to all of the file. Unlike in `scenarios.rs` servers answer by
//! themselves, out of their zones, after 10 ms:
//!
//! ```text
//! server a 192.0.2.1 2001:db8::1         a server and its addresses
//! zone example. a b                      a zone and who serves it; its records follow
//! + www.example. 60 A 192.0.2.80         a record of the last zone; `$N` in it runs through 1 to `*N` in front of it
//! - www.example. A                       the last zone loses these
//! unserve example. a                     a serves the zone no longer
//! is a WAY WAY …                         what is wrong with a, from now on: see below
//! no-way ipv6                            there is no way to such addresses
//!
//! hints . a=ns.a. b                      names at and below . are resolved from a, whose name is ns.a., and b
//! primed . a                             the same, and they are asked who they are
//! copied                                 of the zone of the rule before there is a copy on this machine, as the zone is now
//! copy gone|whole|servfail|tc|empty      from now on there is none; or there is, of the zone as it is now, or something is wrong
//! forward corp. a                        these are forwarded
//! set KEY VALUE                          a setting
//! configure                              settings up to here are in force: `ask` does that by itself the first time
//!
//! ask 1 www.example. A [do] [chaos] [trace] [with=N] [not=ADDRESS|copy] [later]   client 1 asks, with the budget of client N,
//!                                        another server than the one at the address, or others than the copy, and waits for the end
//! at +10s                                so much later
//! answer 1 RCODE: RECORD; auth RECORD    client 1 has exactly this; AA is not shown
//! failed 1 REASON                        client 1 has no answer
//! waits 1                                it has nothing yet
//! took 30ms                              from the last question to its outcome
//! log www.example. A a, NAME TYPE b      exactly these queries were sent since the last question, in this order; behind
//!                                        a server /tcp, /plain (without EDNS), /do, /rd, /v6
//! sent 3, sent <=3, sent a 3             so many queries were, to any server or to a
//! bytes <=N 1                            of replies that client 1's budget has counted
//! count NAME N                           a counter
//! ended www.example. A RCODE             a lookup of that has ended so
//! step 1 TEXT                            the next step in client 1's trace
//! agent 1 DOMAIN for ZONE, agent 1 none  the error-reporting agent of its answer, or that it has none
//! ```
//!
//! Ways: `silent`, `closed` (nothing listens there), `slow=MS`, `refused`, `servfail`, `upward` (refers to
//! the root), `empty` (has nothing to say), `cache` (answers as a cache does), `recursor` (refuses what comes
//! without RD, and resolves the rest), `no-aa`, `tc`, `always-tc`, `no-tcp`, `refuses-tcp`, `formerr`,
//! `notimp` and `badvers` (to queries with OPT), `always-formerr`, `badcookie`, `refer-to=ZONE`,
//! `adds-authority=ZONE` and `adds-answer=NAME` (lies beside what is true), `always-badcookie`, `no-glue`
//! (referrals lack it, unless the name that is asked begins with `ns`), `no-soa` (denials lack it), `own-ns`
//! (denials have the zone's NS in its place), `denies-ents`, `refuses-ents`, `servfail-ents`, `silent-ents`
//! (to names that are there and have no such records), `agent=DOMAIN` (names an agent, RFC 9567).

mod internet;
#[path = "iterate/peers.rs"]
mod peers;
#[path = "iterate/play.rs"]
mod play;
#[path = "scenarios/shown.rs"]
mod shown;

macro_rules! scenarios {
    ($($name:ident)*) => {
        /// All files, with their names.
        const FILES: &[(&str, &str)] =
            &[$((stringify!($name), include_str!(concat!("iterate/", stringify!($name), ".txt")))),*];

        $(
            #[test]
            fn $name() {
                play::run(stringify!($name), include_str!(concat!("iterate/", stringify!($name), ".txt")));
            }
        )*
    };
}

scenarios! { referrals glue addresses servers minimise budgets attacks aliases changes traces second copies agents fallbacks }
