//! Validation on several threads at once.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use wire::{Type, UnixTime};

use crate::support::{Reply, ask};
use crate::validation::{Server, Validated, forged};

/// Names that share keys with others, and one that is bogus at one server.
const QUESTIONS: [(&str, &str); 8] = [
    ("www.nsec.test. A do", "NOERROR rd ra ad"),
    ("nothing.nsec.test. A do", "NXDOMAIN rd ra ad"),
    ("x.wild.nsec.test. A do", "NOERROR rd ra ad"),
    ("www.child.nsec.test. TXT do", "NOERROR rd ra ad"),
    ("www.hash.test. A do", "NOERROR rd ra ad"),
    ("nothing.hash.test. A do", "NXDOMAIN rd ra ad"),
    ("www.plain.test. TXT do", "NOERROR rd ra"),
    ("www.odd.test. TXT do", "NOERROR rd ra EDE 1"),
];

/// Threads validate while this one answers the lookups, until all clients have their answers.
fn settle(with: &mut Validated, clients: usize) -> Vec<Reply> {
    let mut replies = Vec::new();
    let end = Instant::now() + Duration::from_secs(60);
    while replies.len() < clients {
        assert!(Instant::now() < end, "{} of {clients} clients are answered", replies.len());
        with.answer_one();
        replies.extend(with.world.late());
        std::thread::yield_now();
    }
    replies
}

/// Sets the flag when dropped, so that a failed assertion ends the threads, too.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn whatever_threads_do_at_once_everybody_gets_the_right_answer() {
    let second: Server = |_, reply| Some(reply);
    for round in 0..20 {
        let mut with = Validated {
            second: Some(second),
            referral: (round % 2 == 0).then_some(|reply| reply),
            ..Validated::of(|query_key, reply| forged(query_key, reply, Type::A))
        };
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ends = Ends(&over);
            for _ in 0..4 {
                let (validations, wall, now) = (with.validations.clone(), with.wall, with.world.now());
                let over = &over;
                scope.spawn(move || {
                    while !over.load(Relaxed) {
                        validations.work(now, UnixTime::from_secs(wall));
                        std::thread::yield_now();
                    }
                });
            }
            for (id, (question, _)) in QUESTIONS.iter().enumerate() {
                with.world.miss(&crate::support::Ask { id: id as u16, ..ask(question) });
            }
            for reply in settle(&mut with, QUESTIONS.len()) {
                let (question, wanted) = QUESTIONS[usize::from(reply.id())];
                assert_eq!(reply.says(), wanted, "{question}");
            }
        });
        assert_eq!(with.world.service.unvalidated(), 0, "no place is taken any more");
    }
}
