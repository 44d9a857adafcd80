//! A TCP proxy between a node and its database that loses what a test wants it to lose.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

/// What passes.
#[derive(Default)]
struct Rules {
    /// What comes from the server is lost.
    loses_replies: AtomicBool,
    /// What comes from the node is lost.
    loses_requests: AtomicBool,
    /// What was lost of that.
    lost: Mutex<Vec<u8>>,
    /// New connections are closed at once.
    refuses: AtomicBool,
}

impl Rules {
    /// Whether data from the node are lost.
    fn loses_request(&self, data: &[u8]) -> bool {
        let loses = self.loses_requests.load(SeqCst);
        if loses {
            self.lost.lock().expect("no panic").extend_from_slice(data);
        }
        loses
    }
}

/// A proxy. Its threads end with the test's process.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    rules: Arc<Rules>,
    /// The sides of the connections: to the node, to the server.
    pairs: Arc<Mutex<Vec<(TcpStream, TcpStream)>>>,
}

impl Proxy {
    /// Starts a proxy to a port of this machine.
    pub(crate) fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (rules, pairs) = (Arc::<Rules>::default(), Arc::<Mutex<Vec<(TcpStream, TcpStream)>>>::default());
        let proxy = Proxy { port, rules: Arc::clone(&rules), pairs: Arc::clone(&pairs) };
        thread::spawn(move || {
            for node in listener.incoming() {
                let node = node.expect("a connection");
                if rules.refuses.load(SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { continue };
                let copy = |stream: &TcpStream| stream.try_clone().expect("a copy");
                pairs.lock().expect("no panic").push((copy(&node), copy(&server)));
                let (rules_up, rules_down) = (Arc::clone(&rules), Arc::clone(&rules));
                let (mut up, mut down) = ((copy(&node), copy(&server)), (server, node));
                thread::spawn(move || pass(&mut up.0, &mut up.1, |data| rules_up.loses_request(data)));
                thread::spawn(move || {
                    pass(&mut down.0, &mut down.1, |_| rules_down.loses_replies.load(SeqCst))
                });
            }
        });
        proxy
    }

    /// From now on, what the server sends is lost.
    pub(crate) fn lose_replies(&self, yes: bool) {
        self.rules.loses_replies.store(yes, SeqCst);
    }

    /// From now on, what the node sends is lost.
    pub(crate) fn lose_requests(&self, yes: bool) {
        self.rules.loses_requests.store(yes, SeqCst);
    }

    /// Whether this text of the node was lost.
    pub(crate) fn has_lost(&self, text: &str) -> bool {
        self.rules.lost.lock().expect("no panic").windows(text.len()).any(|part| part == text.as_bytes())
    }

    /// From now on, new connections are closed.
    pub(crate) fn refuse(&self, yes: bool) {
        self.rules.refuses.store(yes, SeqCst);
    }

    /// Cuts the connections to the node. Those to the server stay, as after a cable is pulled.
    pub(crate) fn cut(&self) {
        for (node, _) in &*self.pairs.lock().expect("no panic") {
            let _ = node.shutdown(Shutdown::Both);
        }
    }
}

/// Passes on what comes until the end, which is passed on as well unless data is lost.
fn pass(from: &mut TcpStream, to: &mut TcpStream, loses: impl Fn(&[u8]) -> bool) {
    let mut buffer = [0; 16 * 1024];
    loop {
        match from.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => {
                if !loses(&[]) {
                    let _ = to.shutdown(Shutdown::Write);
                }
                return;
            }
            Ok(count) if loses(&buffer[..count]) => {}
            Ok(count) => {
                if to.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
        }
    }
}
