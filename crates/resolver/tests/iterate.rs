//! Iteration on virtual time, in a small Internet that a scenario describes.
//!
//! Each file of `tests/iterate` has scenarios, one line for each setting, action or expectation. The lines
//! before the first scenario apply to all of the file. Unlike in `scenarios.rs`, servers answer by
//! themselves, from their zones, after 10 ms:
//!
//! ```text
//! server a 192.0.2.1 2001:db8::1         a server and its addresses
//! zone example. a b                      a zone and its servers; its records follow
//! + www.example. 60 A 192.0.2.80         a record of the last zone; with `*N` in front of it,
//!                                        one for each number from 1 to N in place of `$N`
//! - www.example. A                       removes these from the last zone
//! unserve example. a                     a stops serving the zone
//! is a WAY WAY …                         a's faults, from now on: see below
//! no-way ipv6                            no route to such addresses
//!
//! hints . a=ns.a. b                      names at and below . are resolved from a, named ns.a., and b
//! primed . a                             the same, with priming
//! copied                                 a local copy of the previous rule's zone, as the zone is now
//! copy gone|whole|servfail|tc|empty      from now on there is none; or one of the zone as it is
//!                                        now; or one with a fault
//! forward corp. a                        forwards these names
//! set KEY VALUE                          a setting
//! configure                              applies the settings so far; the first `ask` does it, too
//!
//! ask 1 www.example. A [do] [chaos] [trace] [with=N] [not=ADDRESS|copy] [later]
//!                                        client 1 queries, with the budget of client N, excluding
//!                                        the server at the address or the copy, and the scenario
//!                                        waits for the end, unless `later`
//! at +10s                                advances the time
//! answer 1 RCODE: RECORD; auth RECORD    client 1 got exactly this; AA is not shown
//! failed 1 REASON                        client 1 got no answer
//! waits 1                                client 1 still waits
//! took 30ms                              from the last query to its outcome
//! log www.example. A a, NAME TYPE b      exactly these queries were sent since the last `ask`, in
//!                                        this order; behind a server /tcp, /dot, /doq, /plain (without
//!                                        EDNS), /do, /rd, /v6
//! sent 3, sent <=3, sent a 3             number of queries sent, to all servers or to a
//! bytes <=N 1, queries <=N 1             bytes of replies in client 1's budget, and queries charged to it
//! encryption ADDRESS tls works, none     what is known of encrypted transports
//! count NAME N                           a counter
//! ended www.example. A RCODE             a lookup of that ended so
//! step 1 TEXT                            the next step in client 1's trace
//! agent 1 DOMAIN for ZONE, agent 1 none  the error-reporting agent of its answer, or none
//! ```
//!
//! Ways: `silent`, `closed` (refuses connections), `slow=MS`, `refused`, `servfail`, `upward` (refers to the
//! root), `empty` (sends empty replies), `cache` (answers like a cache), `recursor` (refuses queries without
//! RD, and resolves all others), `no-aa`, `tc`, `always-tc`, `no-tcp`, `refuses-tcp`, `formerr`, `notimp` and
//! `badvers` (to queries with OPT), `always-formerr`, `badcookie`, `refer-to=ZONE`, `adds-authority=ZONE` and
//! `adds-answer=NAME` (false data beside true data), `always-badcookie`, `no-glue` (referrals lack it, unless
//! QNAME begins with `ns`), `no-soa` (denials lack it), `own-ns` (denials have the zone's NS instead),
//! `denies-ents`, `refuses-ents`, `servfail-ents`, `silent-ents` (to names that exist without such records),
//! `agent=DOMAIN` (names an agent, RFC 9567). Encrypted connections are refused, except with `dot` and `doq`;
//! over these, `encrypted-hangs` (no handshake), `no-tls`, `encrypted-mute`, `encrypted-slow=MS`,
//! `encrypted-resets` (ends the connection at each query), `encrypted-refused` and `encrypted-cache` (replies
//! like `refused` and `cache`).

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

scenarios! { referrals glue addresses servers minimise budgets attacks aliases changes traces second copies agents fallbacks encrypted }
