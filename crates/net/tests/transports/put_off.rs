//! Queries that a handler defers: answers that are ready at once are sent before it continues with them.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use net::{Context, Listener, ListenerConfig, Running};
use transport::{Batch, Handler, LateReplies, Outcome, ReturnAddress, Transport, WorkerContext};

use crate::script::{TEST_TIMEOUT, receive, udp_client};

/// The thirteenth byte of a query that is deferred, if that is allowed.
const SLOW: u8 = b's';
/// Of a query that is answered at once.
const QUICK: u8 = b'q';
/// Of a query that is answered when the test says so. Meanwhile others arrive.
const HOLD: u8 = b'h';
/// Of a slow query that makes the handler panic when it continues with it.
const PANIC: u8 = b'x';

type DeferredQueries = Arc<Mutex<VecDeque<(ReturnAddress, Vec<u8>)>>>;

/// Sends queries back.
struct Echo {
    put_off: DeferredQueries,
    held: SyncSender<()>,
    go_on: Arc<Mutex<Receiver<()>>>,
}

impl Handler for Echo {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        let may_put_off = batch.may_put_off();
        let (queries, replies) = batch.split();
        for i in 0..queries.len() {
            let packet = queries.packet(i);
            if packet[12] == HOLD {
                self.held.send(()).unwrap();
                self.go_on.lock().unwrap().recv_timeout(TEST_TIMEOUT).unwrap();
            }
            if may_put_off && matches!(packet[12], SLOW | PANIC) {
                self.put_off.lock().unwrap().push_back((queries.return_address(i), packet.to_vec()));
                replies.set(i, Outcome::Pending);
                continue;
            }
            replies.buffer(i)[..packet.len()].copy_from_slice(packet);
            replies.set(i, Outcome::Reply(packet.len()));
        }
    }

    fn late(&mut self, _: &mut LateReplies<'_>) -> bool {
        false
    }

    fn resume(&mut self, replies: &mut LateReplies<'_>, most: usize) -> bool {
        for _ in 0..most {
            let Some(out) = replies.buffer() else { return true };
            let Some((to, query)) = self.put_off.lock().unwrap().pop_front() else { return false };
            assert_ne!(query[12], PANIC, "as the query says");
            out[..query.len()].copy_from_slice(&query);
            replies.push(to, Outcome::Reply(query.len()));
        }
        !self.put_off.lock().unwrap().is_empty()
    }
}

struct Rig {
    running: Running,
    held: Receiver<()>,
    go_on: SyncSender<()>,
    client: UdpSocket,
}

impl Rig {
    fn new() -> Rig {
        let ((held, is_held), (go_on, goes_on)) = (sync_channel(1), sync_channel(1));
        let (put_off, goes_on) = (DeferredQueries::default(), Arc::new(Mutex::new(goes_on)));
        let config = ListenerConfig { workers: 1, ..ListenerConfig::default() };
        let bound = Listener::bind("127.0.0.1:0".parse().unwrap(), Transport::Udp, &config).unwrap();
        let factory = move |_: &WorkerContext| Echo {
            put_off: Arc::clone(&put_off),
            held: held.clone(),
            go_on: Arc::clone(&goes_on),
        };
        let running = bound.serve(factory, &Context::default()).unwrap();
        let client = udp_client(running.local_addr());
        Rig { running, held: is_held, go_on, client }
    }

    /// Sends all of these while the worker is busy, so that it receives them together. Returns the replies in
    /// their order.
    fn ask_together(&self, kinds: &[u8], answers: usize) -> Vec<(u8, u8)> {
        self.client.send(&query(0, HOLD)).unwrap();
        self.held.recv_timeout(TEST_TIMEOUT).unwrap();
        for (n, kind) in kinds.iter().enumerate() {
            self.client.send(&query(n as u8, *kind)).unwrap();
        }
        self.go_on.send(()).unwrap();
        let all = (0..=answers).map(|_| receive(&self.client));
        let mut all: Vec<_> = all.map(|answer| (answer[12], answer[0])).collect();
        assert_eq!(all.remove(0), (HOLD, 0));
        all
    }

    fn stop(self) {
        self.running.stop();
        self.running.join();
    }
}

fn query(n: u8, kind: u8) -> Vec<u8> {
    let mut query = vec![0; 20];
    (query[0], query[12]) = (n, kind);
    query
}

#[test]
fn quick_answers_of_a_burst_leave_first_and_the_others_in_their_order() {
    let rig = Rig::new();
    let mut kinds = [SLOW; 40];
    kinds[20] = QUICK;
    kinds[39] = QUICK;
    let answers = rig.ask_together(&kinds, 40);
    assert_eq!(answers[..2], [(QUICK, 20), (QUICK, 39)]);
    let slow: Vec<_> = (0..39).filter(|n| *n != 20).map(|n| (SLOW, n)).collect();
    assert_eq!(answers[2..], slow);
    rig.stop();
}

#[test]
fn of_a_few_queries_none_is_put_off() {
    let rig = Rig::new();
    let answers = rig.ask_together(&[SLOW, SLOW, QUICK], 3);
    assert_eq!(answers, [(SLOW, 0), (SLOW, 1), (QUICK, 2)]);
    rig.stop();
}

#[test]
fn a_panic_over_a_query_that_was_put_off_costs_that_one() {
    let rig = Rig::new();
    let mut kinds = [SLOW; 30];
    kinds[10] = PANIC;
    let answers = rig.ask_together(&kinds, 29);
    assert_eq!(answers, (0..30).filter(|n| *n != 10).map(|n| (SLOW, n)).collect::<Vec<_>>());
    assert_eq!(rig.running.stats().totals().panics, 1);
    rig.stop();
}

/// Deferred queries are answered before the worker ends.
#[test]
fn a_worker_that_ends_leaves_nothing_put_off() {
    let rig = Rig::new();
    rig.client.send(&query(0, HOLD)).unwrap();
    rig.held.recv_timeout(TEST_TIMEOUT).unwrap();
    (0..60).for_each(|n| assert!(rig.client.send(&query(n, SLOW)).is_ok()));
    let Rig { running, go_on, client, .. } = rig;
    running.stop();
    go_on.send(()).unwrap();
    running.join();
    let answers: Vec<_> = (0..61).map(|_| receive(&client)[12]).collect();
    assert_eq!(answers.iter().filter(|kind| **kind == SLOW).count(), 60);
}
