//! The resolver on virtual time, against upstream servers that follow a scenario.
//!
//! Each file of `tests/scenarios` has scenarios, one line for each setting, action or expectation:
//!
//! ```text
//! scenario NAME                          starts one; `#` starts a comment
//! upstream a [tcp | tls [NAME] | https | quic | odoh]  the next server: 192.0.2.1, 192.0.2.2, …
//! rule . a b [norec] [first]             names at and below . go to a and b, without RD; then to the
//!                                        root, which has no servers
//! set KEY VALUE                          a setting; without, there is no exploration
//!
//! ask 1 www.example. A [do] [cd] [nord] [from=ADDRESS] [for=TIME] [trace]
//!                                        client 1 queries, and waits for that time
//! settings                               starts new settings; `rule` and `set` follow
//! configure                              applies them
//! reply a [FLAGS] RCODE: RECORD; auth RECORD; add RECORD
//!                                        a answers the last query it got; a#2 the second;
//!                                        `@2` in a record becomes the last two labels as a was asked
//! message a HEX                          a sends bytes on the link of that query
//! opened a, closed a, refused a          the link of the last query to a opens, is closed, fails
//! secured a [resumed], insecure a FAULT  its encryption is established, or fails
//! unanswered a FAULT, draining a         the query fails on its stream (`unprocessed`: can be sent again);
//!                                        the server takes no more queries on the link
//! wants a                                queries on that link need the key of the target behind a
//! fetched a                              it is fetched; the link to the target is a/key, as in
//!                                        refused a/key, insecure a/key FAULT, unanswered a/key FAULT
//! at +20ms                               advances the time
//!
//! query a udp www.example. A [WHAT]      a gets this query now; WHAT: mixed rd cd do plain
//!                                        edns=N cookie server=N padded=BYTES, new (a connection), !mixed …
//! answer 1 [FLAGS] RCODE: RECORD; auth RECORD              client 1 gets exactly this
//! failed 1 REASON                        client 1 gets no answer
//! drops a tcp                            the resolver closes a link to a now
//! fetches a                              the resolver opens a link to the target behind a
//! resumes a                              a link to a goes on after that
//! cancels a                              the resolver cancels the last query to a, or a#2 the second
//! ended OUTCOME                          outcome of the last lookup that ended; `nothing`: none
//!                                        since the last such line
//! step 1 TEXT                            the next step in client 1's trace
//! steps 1                                it has no more
//! count NAME N                           a counter
//! servers a 20000us, b - failing         the servers with counters, and their state
//! ```
//!
//! Any query or outcome that is not expected fails the scenario. At the end no link may be open and no timer
//! set.

#[path = "scenarios/harness.rs"]
mod harness;
#[path = "scenarios/shown.rs"]
mod shown;

macro_rules! scenarios {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            harness::run(stringify!($name), include_str!(concat!("scenarios/", stringify!($name), ".txt")));
        }
    )*};
}

scenarios! { basics retry servers forgery downgrade streams answers limits reload trace dead tls streamed oblivious }
