//! Datagram workers that query another server themselves: every query of a client leads to one message on a
//! link of its own, and its reply is the answer.

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::{Context, Listener, ListenerConfig, Outgoing, OutgoingConfig, Running, UdpBackend, UdpConfig};
use transport::{Action, Batch, Core, Event, Handler, LateReplies, Link, Outcome, Transport, WorkerContext};

use crate::later::{self, LateAnswers, Queues, WaitingQuery};
use crate::script::{TEST_TIMEOUT, receive, udp_client, wait_until};

/// The thirteenth byte of a query that is answered after [`TIME`], without an upstream query.
const AFTER_A_TIME: u8 = b't';
/// Of a query that is answered at once, but sent to the other server all the same until [`TIME`] is over.
const GIVEN_UP: u8 = b'g';
/// Of a query whose reply makes the core panic.
const PANIC: u8 = b'x';
/// Of a query that is sent upstream twice in a row.
const TWICE: u8 = b'2';
/// Of any other query.
const ONCE: u8 = b'1';
/// The delay.
const TIME: Duration = Duration::from_millis(30);

/// Threads that the core ran on, with what it did there.
type Seen = Arc<Mutex<Vec<(&'static str, String)>>>;

/// Sends clients' queries to the other server.
struct Asker {
    to: SocketAddr,
    seen: Seen,
    waiting: HashMap<Link, Asked>,
    timed: VecDeque<(Instant, Timed)>,
    last: u64,
}

/// Done when the delay is over.
enum Timed {
    Answer(Asked),
    Close(Link),
}

struct Asked {
    client: WaitingQuery,
    query: Vec<u8>,
}

impl Asker {
    fn note(&self, what: &'static str) {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.seen.lock().unwrap().push((what, thread));
    }

    fn ask(&mut self, asked: Asked, actions: &mut Vec<Action>) {
        let link = self.send(&asked, actions);
        self.waiting.insert(link, asked);
    }

    fn send(&mut self, asked: &Asked, actions: &mut Vec<Action>) -> Link {
        self.last += 1;
        let link = Link(self.last);
        actions.push(Action::Open {
            link,
            transport: Transport::Udp,
            to: self.to,
            from: None,
            encryption: None,
        });
        actions.push(Action::Send { link, message: asked.query.clone() });
        link
    }
}

impl Core for Asker {
    type Request = Asked;

    fn request(&mut self, asked: Asked, now: Instant, actions: &mut Vec<Action>) {
        self.note("request");
        match asked.query[12] {
            AFTER_A_TIME => self.timed.push_back((now + TIME, Timed::Answer(asked))),
            GIVEN_UP => {
                let link = self.send(&asked, actions);
                self.timed.push_back((now + TIME, Timed::Close(link)));
                asked.client.send(&asked.query);
            }
            _ => self.ask(asked, actions),
        }
    }

    fn event(&mut self, event: Event<'_>, _: Instant, actions: &mut Vec<Action>) {
        self.note("event");
        let (Event::Message { link, .. }
        | Event::Opened { link }
        | Event::Secured { link, .. }
        | Event::Ended { link, .. }
        | Event::Insecure { link, .. }
        | Event::Failed { link, .. }
        | Event::KeyWanted { link }
        | Event::Draining { link }) = event;
        let asked = self.waiting.remove(&link);
        actions.push(Action::Close { link });
        match (event, asked) {
            (Event::Message { message, .. }, Some(mut asked)) => match asked.query[12] {
                PANIC => panic!("as the query says"),
                TWICE => {
                    asked.query[12] = ONCE;
                    self.ask(asked, actions);
                }
                _ => asked.client.send(message),
            },
            _ => panic!("no link ends by itself"),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.timed.front().map(|&(at, ..)| at)
    }

    fn timeout(&mut self, _: Instant, actions: &mut Vec<Action>) {
        self.note("timeout");
        match self.timed.pop_front() {
            Some((_, Timed::Answer(asked))) => asked.client.send(&asked.query),
            Some((_, Timed::Close(link))) => actions.push(Action::Close { link }),
            None => {}
        }
    }
}

/// Answers nothing at once. If there are several cores, each gets its share of the queries.
struct Asking {
    cores: Vec<Arc<Outgoing<Asked>>>,
    queue: LateAnswers,
}

impl Handler for Asking {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        let (queries, replies) = batch.split();
        for i in 0..queries.len() {
            let client = WaitingQuery::new(queries.return_address(i), &self.queue);
            let query = queries.packet(i).to_vec();
            let core = &self.cores[usize::from(query[3]) % self.cores.len()];
            assert!(core.request(Asked { client, query }));
            replies.set(i, Outcome::Pending);
        }
    }

    fn late(&mut self, replies: &mut LateReplies<'_>) -> bool {
        later::write(&self.queue, replies)
    }
}

struct Rig {
    running: Running,
    outgoing: Arc<Outgoing<Asked>>,
    seen: Seen,
    other: UdpSocket,
}

/// A core that queries the other server.
fn core(other: &UdpSocket, seen: &Seen) -> Arc<Outgoing<Asked>> {
    let core = Asker {
        to: other.local_addr().unwrap(),
        seen: Arc::clone(seen),
        waiting: HashMap::new(),
        timed: VecDeque::new(),
        last: 0,
    };
    let config = OutgoingConfig { by_workers: true, ..OutgoingConfig::default() };
    Arc::new(Outgoing::start("core", core, &config).unwrap())
}

fn other_server() -> UdpSocket {
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    other
}

fn serve(workers: usize, backend: UdpBackend, cores: &[Arc<Outgoing<Asked>>]) -> Running {
    let config = ListenerConfig {
        workers,
        udp: UdpConfig { backend, ..UdpConfig::default() },
        ..ListenerConfig::default()
    };
    let bound = Listener::bind("127.0.0.1:0".parse().unwrap(), Transport::Udp, &config).unwrap();
    let (queues, cores) = (Queues::default(), cores.to_vec());
    let factory = move |worker_context: &WorkerContext| Asking {
        cores: cores.clone(),
        queue: queues.of(worker_context),
    };
    bound.serve(factory, &Context::default()).unwrap()
}

impl Rig {
    fn new(workers: usize, backend: UdpBackend) -> Rig {
        let (other, seen) = (other_server(), Seen::default());
        let outgoing = core(&other, &seen);
        let running = serve(workers, backend, std::slice::from_ref(&outgoing));
        Rig { running, outgoing, seen, other }
    }

    /// Sends `n` messages back as received, on a thread of its own.
    fn echo(&self, n: usize) -> JoinHandle<()> {
        let other = self.other.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            for _ in 0..n {
                let (len, from) = other.recv_from(&mut buffer).unwrap();
                other.send_to(&buffer[..len], from).unwrap();
            }
        })
    }

    fn client(&self) -> UdpSocket {
        udp_client(self.running.local_addr())
    }

    /// Returns the threads on which this was done, each once.
    fn threads(&self, what: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let mut threads: Vec<String> =
            seen.iter().filter(|(did, _)| *did == what).map(|(_, thread)| thread.clone()).collect();
        threads.sort();
        threads.dedup();
        threads
    }

    fn stop(self) {
        wait_until("nothing is left open", || self.outgoing.counts().open.get() == 0);
        self.running.stop();
        self.running.join();
        self.outgoing.stop();
    }
}

fn query(n: u32, kind: u8) -> Vec<u8> {
    let mut query = vec![0; 20];
    query[..4].copy_from_slice(&n.to_be_bytes());
    query[12] = kind;
    query
}

#[test]
fn query_and_reply_pass_through_the_worker_alone() {
    for backend in [UdpBackend::Mmsg, UdpBackend::Plain] {
        let rig = Rig::new(1, backend);
        let (client, other) = (rig.client(), rig.echo(400));
        for n in 0..200 {
            client.send(&query(n, TWICE)).unwrap();
            assert_eq!(receive(&client), query(n, ONCE));
        }
        other.join().unwrap();
        let worker = format!("udp-{}-0", rig.running.local_addr().port());
        assert_eq!(rig.threads("request"), [worker.as_str()]);
        assert_eq!(rig.threads("event"), [worker.as_str()]);
        assert_eq!(rig.outgoing.counts().opened.get(), 400);
        rig.stop();
    }
}

#[test]
fn of_many_queries_at_many_workers_each_is_answered() {
    const CLIENTS: usize = 8;
    const EACH: u32 = 1000;
    let rig = Rig::new(3, UdpBackend::Mmsg);
    let other = rig.echo(CLIENTS * EACH as usize);
    std::thread::scope(|scope| {
        for at in 0..CLIENTS {
            let client = rig.client();
            scope.spawn(move || {
                // Some together, some alone.
                let mut n = 0;
                while n < EACH {
                    let together = (EACH - n).min(1 + (n * 7 + at as u32) % 30);
                    for n in n..n + together {
                        client.send(&query(n, ONCE)).unwrap();
                    }
                    let mut answers: Vec<_> = (0..together).map(|_| receive(&client)).collect();
                    answers.sort();
                    let expected: Vec<_> = (n..n + together).map(|n| query(n, ONCE)).collect();
                    assert_eq!(answers, expected);
                    n += together;
                }
            });
        }
    });
    other.join().unwrap();
    rig.stop();
}

#[test]
fn deadlines_are_kept_although_workers_bring_the_requests() {
    let rig = Rig::new(1, UdpBackend::Mmsg);
    let client = rig.client();
    for n in 0..5 {
        let sent = Instant::now();
        client.send(&query(n, AFTER_A_TIME)).unwrap();
        assert_eq!(receive(&client), query(n, AFTER_A_TIME));
        assert!(sent.elapsed() >= TIME);
    }
    assert_eq!(rig.threads("timeout"), ["core"]);
    rig.stop();
}

/// The first worker waits for a reply when it is stopped, and does not wait for ever: a later reply is
/// received all the same.
#[test]
fn links_of_a_worker_that_ends_pass_to_the_core_s_thread() {
    let rig = Rig::new(1, UdpBackend::Mmsg);
    let client = rig.client();
    client.send(&query(1, ONCE)).unwrap();
    let (n, from) = rig.other.recv_from(&mut [0; 100]).unwrap();
    assert_eq!((n, rig.outgoing.counts().open.get()), (20, 1));
    let Rig { running, outgoing, seen, other } = rig;
    running.stop();
    running.join();
    other.send_to(&query(1, ONCE), from).unwrap();
    wait_until("the reply is received", || outgoing.counts().open.get() == 0);
    assert!(seen.lock().unwrap().contains(&("event", "core".to_owned())));
    // A reply that no worker is left to pass on is received all the same.
    outgoing.stop();
}

#[test]
fn a_panic_of_the_core_costs_what_it_was_about_and_no_worker() {
    let rig = Rig::new(1, UdpBackend::Mmsg);
    let (client, other) = (rig.client(), rig.echo(3));
    client.send(&query(1, PANIC)).unwrap();
    // Its client gets no answer: the pending query is lost.
    client.send(&query(2, ONCE)).unwrap();
    assert_eq!(receive(&client), query(2, ONCE));
    client.send(&query(3, ONCE)).unwrap();
    assert_eq!(receive(&client), query(3, ONCE));
    other.join().unwrap();
    assert!(rig.running.stats().totals().panics >= 1);
    let Rig { running, outgoing, .. } = rig;
    running.stop();
    running.join();
    outgoing.stop();
}

/// The other server is slow, so the worker waits for replies after reading links in vain; before that, it was
/// fast.
#[test]
fn replies_are_heard_however_soon_they_come() {
    const TOGETHER: u32 = 200;
    let rig = Rig::new(1, UdpBackend::Mmsg);
    let client = rig.client();
    let ask_all = || (0..TOGETHER).for_each(|n| assert!(client.send(&query(n, ONCE)).is_ok()));
    let hear_all = || {
        let mut answers: Vec<_> = (0..TOGETHER).map(|_| receive(&client)).collect();
        answers.sort();
        assert_eq!(answers, (0..TOGETHER).map(|n| query(n, ONCE)).collect::<Vec<_>>());
    };
    for _ in 0..3 {
        let other = rig.echo(TOGETHER as usize);
        ask_all();
        hear_all();
        other.join().unwrap();
        ask_all();
        let mut waiting = Vec::new();
        let mut buffer = [0; 100];
        for _ in 0..TOGETHER {
            let (len, from) = rig.other.recv_from(&mut buffer).unwrap();
            waiting.push((buffer[..len].to_vec(), from));
        }
        for (query, from) in waiting {
            rig.other.send_to(&query, from).unwrap();
        }
        hear_all();
    }
    rig.stop();
}

/// The core gives up on its thread, while the worker that has the link waits for nothing else.
#[test]
fn a_link_that_was_given_up_stayed_open_until_its_worker_had_something_to_do() {
    let rig = Rig::new(1, UdpBackend::Mmsg);
    let client = rig.client();
    client.send(&query(1, GIVEN_UP)).unwrap();
    let (_, from) = rig.other.recv_from(&mut [0; 100]).unwrap();
    assert_eq!(receive(&client), query(1, GIVEN_UP));
    wait_until("the port is free", || UdpSocket::bind(("127.0.0.1", from.port())).is_ok());
    assert_eq!(rig.threads("timeout"), ["core"]);
    rig.stop();
}

/// A worker drives one of them; the other one's thread acts on the requests that the worker brings there.
#[test]
fn where_a_worker_brought_to_two_cores_it_took_the_replies_of_one_for_the_other_s() {
    const TOGETHER: u32 = 60;
    let (other, seen) = (other_server(), Seen::default());
    let cores = [core(&other, &seen), core(&other, &seen)];
    let running = serve(1, UdpBackend::Mmsg, &cores);
    let rig = Rig { running, outgoing: Arc::clone(&cores[0]), seen, other };
    let client = rig.client();
    for _ in 0..20 {
        let other = rig.echo(TOGETHER as usize);
        (0..TOGETHER).for_each(|n| assert!(client.send(&query(n, ONCE)).is_ok()));
        let mut answers: Vec<_> = (0..TOGETHER).map(|_| receive(&client)).collect();
        answers.sort();
        assert_eq!(answers, (0..TOGETHER).map(|n| query(n, ONCE)).collect::<Vec<_>>());
        other.join().unwrap();
    }
    let worker = format!("udp-{}-0", rig.running.local_addr().port());
    assert_eq!(rig.threads("event"), ["core", worker.as_str()]);
    wait_until("nothing is left open", || cores[1].counts().open.get() == 0);
    rig.stop();
}

/// The core that the worker drove is gone, and the worker drives the next one.
#[test]
fn a_worker_acts_for_another_core_once_its_own_is_gone() {
    let (other, seen) = (other_server(), Seen::default());
    let cores = [core(&other, &seen), core(&other, &seen)];
    let running = serve(1, UdpBackend::Mmsg, &cores);
    let rig = Rig { running, outgoing: Arc::clone(&cores[1]), seen, other };
    let client = rig.client();
    let ask = |n| {
        let other = rig.echo(1);
        client.send(&query(n, ONCE)).unwrap();
        assert_eq!(receive(&client), query(n, ONCE));
        other.join().unwrap();
    };
    let worker = format!("udp-{}-0", rig.running.local_addr().port());
    ask(0);
    assert_eq!(rig.threads("event"), [worker.as_str()]);
    cores[0].stop();
    // The first request shows the worker that its core is gone.
    (0..2).for_each(|_| ask(1));
    rig.seen.lock().unwrap().clear();
    ask(1);
    assert_eq!(rig.threads("event"), [worker.as_str()]);
    rig.stop();
}
