//! Clients that misuse a server.

use std::cell::Cell;
use std::future::pending;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use quinn::{ClientConfig, Connection, Endpoint, SendStream, VarInt};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_local;
use tokio::time::{interval, sleep, timeout};

use crate::load::{framed, query_of};
use crate::settings::{self, SERVER_NAME};

/// Clients of one address, and of one network.
const OF_AN_ADDRESS: usize = 100;
const OF_A_NETWORK: usize = 5000;
/// Queries that a client does not read the answers of, and bytes of answers that a server may send.
const DEAF_QUERIES: usize = 32;
const DEAF_WINDOWS: (u32, u32) = (2048, 8192);
/// Streams that a client opens and does not finish, and those that it resets in a second.
const HALF_STREAMS: usize = 100;
const RESET_STREAMS: usize = 10;
/// Interval of new connections, of bytes, and of the lines that are printed.
const PACE: Duration = Duration::from_millis(10);
const DRIP: Duration = Duration::from_secs(1);
const REPORT: Duration = Duration::from_millis(200);
/// Time of a handshake that does not go on: that of the server's `tcp-first-timeout`.
const HELLO: Duration = Duration::from_secs(5);
/// Longest wait for the ends of all connections.
const FAREWELL: Duration = Duration::from_secs(5);
/// The code of a stream whose answer is not wanted (RFC 9250 §8.4).
const CANCELLED: VarInt = VarInt::from_u32(3);

/// How a client misuses its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Misuse {
    /// Sends nothing.
    Idle,
    /// Sends a query, a byte a second.
    Slow,
    /// Asks for large answers on many streams, and reads none.
    Deaf,
    /// Opens streams, sends a query on each, and does not finish them.
    Half,
    /// Opens streams, sends a query on each, and resets them at once.
    Reset,
    /// Begins a handshake, returns the token of a Retry, and does not go on.
    Hello,
}

/// Connections begun so far, those there are, and those of them whose handshake is complete.
#[derive(Default)]
struct Counts {
    opened: Cell<usize>,
    held: Cell<usize>,
    ready: Cell<usize>,
}

/// A connection that counts as long as this exists.
struct Counted<'c>(&'c Cell<usize>);

impl<'c> Counted<'c> {
    fn new(count: &'c Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Has `clients` of them misuse a server until the standard input ends.
///
/// # Errors
/// There are no sockets, or no output.
pub(crate) async fn run(kind: Misuse, server: SocketAddr, clients: usize, rate: usize) -> io::Result<()> {
    let config = settings::client(b"doq", (kind == Misuse::Deaf).then_some(DEAF_WINDOWS))?;
    let (counts, starts) = (Rc::new(Counts::default()), Arc::new(Semaphore::new(0)));
    let mut endpoints = Vec::new();
    for number in 0..clients {
        if number % OF_AN_ADDRESS == 0 {
            endpoints.push(settings::endpoint(address(number), kind == Misuse::Hello)?);
        }
        let endpoint = endpoints[number / OF_AN_ADDRESS].clone();
        let (config, counts, starts) = (config.clone(), Rc::clone(&counts), Arc::clone(&starts));
        spawn_local(async move { client(kind, &endpoint, (&config, server), &counts, &starts).await });
    }
    spawn_local(pace(starts, rate));
    let mut ended = input_ended();
    let mut report = interval(REPORT);
    loop {
        tokio::select! {
            biased;
            _ = &mut ended => break,
            _ = report.tick() => {
                let (opened, held, ready) = (counts.opened.get(), counts.held.get(), counts.ready.get());
                writeln!(io::stdout(), "{opened} {held} {ready}")?;
            }
        }
    }
    if kind == Misuse::Hello {
        // Such clients do not say farewell.
        return Ok(());
    }
    let _ = timeout(FAREWELL, async {
        for endpoint in &endpoints {
            endpoint.close(VarInt::from_u32(0), b"");
            // The packets of all at once would not fit in the buffer of the server's socket.
            sleep(PACE).await;
        }
        for endpoint in &endpoints {
            endpoint.wait_idle().await;
        }
    })
    .await;
    Ok(())
}

/// Returns the address of the client with this number, of those that share its socket.
fn address(number: usize) -> SocketAddr {
    let part = |value: usize| u8::try_from(value).unwrap_or(u8::MAX);
    let (network, host) = (part(number / OF_A_NETWORK), part(1 + number % OF_A_NETWORK / OF_AN_ADDRESS));
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 1, network, host)), 0)
}

/// Allows `rate` new connections a second.
async fn pace(starts: Arc<Semaphore>, rate: usize) {
    let (mut tick, begun, mut allowed) = (interval(PACE), Instant::now(), 0);
    loop {
        tick.tick().await;
        let due = begun.elapsed().as_millis() as usize * rate / 1000;
        // What is not used at once is not saved.
        if starts.available_permits() == 0 {
            starts.add_permits(due - allowed);
        }
        allowed = due;
    }
}

/// Returns what is ready once the standard input has ended.
fn input_ended() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = sender.send(());
    });
    receiver
}

/// Connects again whenever the server has closed the connection.
async fn client(
    kind: Misuse,
    endpoint: &Endpoint,
    (config, server): (&ClientConfig, SocketAddr),
    counts: &Counts,
    starts: &Semaphore,
) {
    loop {
        match starts.acquire().await {
            Ok(start) => start.forget(),
            Err(_) => return,
        }
        let Ok(connecting) = endpoint.connect_with(config.clone(), server, SERVER_NAME) else { return };
        counts.opened.set(counts.opened.get() + 1);
        let _held = Counted::new(&counts.held);
        let connected = match kind {
            Misuse::Hello => timeout(HELLO, connecting).await.ok(),
            _ => Some(connecting.await),
        };
        let Some(Ok(connection)) = connected else { continue };
        let _ready = Counted::new(&counts.ready);
        tokio::select! {
            biased;
            _ = connection.closed() => {}
            () = misuse(kind, &connection) => {}
        }
    }
}

/// Misuses a connection. Returns only if it cannot be used.
async fn misuse(kind: Misuse, connection: &Connection) {
    let (small, large) = (framed(&query_of("ns1.example", 1)), framed(&query_of("large.example", 16)));
    // Streams that are dropped end.
    let mut streams = Vec::new();
    match kind {
        Misuse::Idle | Misuse::Hello => {}
        Misuse::Slow => while slow(connection, &small).await {},
        Misuse::Deaf => {
            for _ in 0..DEAF_QUERIES {
                let Ok((mut to_server, from_server)) = connection.open_bi().await else { return };
                if sent(&mut to_server, &large).await && to_server.finish().is_ok() {
                    streams.push((to_server, from_server));
                }
            }
        }
        Misuse::Half => {
            for _ in 0..HALF_STREAMS {
                let Ok((mut to_server, from_server)) = connection.open_bi().await else { return };
                if sent(&mut to_server, &small).await {
                    streams.push((to_server, from_server));
                }
            }
        }
        Misuse::Reset => loop {
            for _ in 0..RESET_STREAMS {
                let Ok((mut to_server, mut from_server)) = connection.open_bi().await else { return };
                if sent(&mut to_server, &small).await {
                    let _ = (to_server.reset(CANCELLED), from_server.stop(CANCELLED));
                }
            }
            sleep(DRIP).await;
        },
    }
    pending::<()>().await;
}

/// Sends a query, a byte a second, and reads its answer. Returns whether another can follow.
async fn slow(connection: &Connection, query: &[u8]) -> bool {
    let Ok((mut to_server, mut from_server)) = connection.open_bi().await else { return false };
    for byte in query {
        if !sent(&mut to_server, &[*byte]).await {
            return false;
        }
        sleep(DRIP).await;
    }
    to_server.finish().is_ok() && from_server.read_to_end(usize::from(u16::MAX) + 2).await.is_ok()
}

async fn sent(to_server: &mut SendStream, bytes: &[u8]) -> bool {
    to_server.write_all(bytes).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_clients_share_an_address() {
        let of = |number| address(number).ip().to_string();
        assert_eq!([of(0), of(100), of(4999)], ["127.1.0.1", "127.1.0.2", "127.1.0.50"]);
        assert_eq!([of(5000), of(9999)], ["127.1.1.1", "127.1.1.50"]);
    }
}
