//! Clients that ask as fast as a server answers.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use quinn::{ClientConfig, Connection, Endpoint, VarInt};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::http3;
use crate::settings::{self, SERVER_NAME};

/// Longest wait for an answer, and for a handshake.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Most bytes of an answer.
const MOST: usize = 1 << 17;
/// Queries of a connection, after which the next one begins: knotd 3.5 takes no more than 1,024.
const OF_A_CONNECTION: usize = 1000;
/// Connections without an answer, one after another, after which the server does not speak the protocol.
const MOST_FAILURES: usize = 10;
/// The codes of a connection that is not needed any more (RFC 9250 §8.4, RFC 9114 §8.1).
const DOQ_NO_ERROR: VarInt = VarInt::from_u32(0);
const H3_NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// What is asked, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// Queries over QUIC.
    Doq,
    /// Queries over HTTP/3.
    Doh3,
    /// Handshakes of DNS over QUIC, one after another, without a query.
    Handshakes,
}

impl Protocol {
    fn alpn(self) -> &'static [u8] {
        if self == Protocol::Doh3 { b"h3" } else { b"doq" }
    }

    fn no_error(self) -> VarInt {
        if self == Protocol::Doh3 { H3_NO_ERROR } else { DOQ_NO_ERROR }
    }
}

/// What clients have done.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) answered: usize,
    pub(crate) lost: usize,
    pub(crate) connections: usize,
}

/// Numbers that all tasks count.
#[derive(Default)]
struct Tally {
    answered: Cell<usize>,
    lost: Cell<usize>,
    connections: Cell<usize>,
}

fn count(cell: &Cell<usize>) {
    cell.set(cell.get() + 1);
}

/// Returns a query with the ID 0, for records of this type.
pub(crate) fn query_of(name: &str, rtype: u16) -> Vec<u8> {
    let mut message = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&rtype.to_be_bytes());
    message.extend_from_slice(&1_u16.to_be_bytes());
    message
}

/// Returns a query for the IPv4 addresses of a name.
pub(crate) fn query(name: &str) -> Vec<u8> {
    query_of(name, 1)
}

/// Returns a message behind its length.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

/// Whether a message is a response without an error, with an answer.
fn is_answer(message: &[u8]) -> bool {
    message.len() > 12 && message[2] & 0x80 != 0 && message[3] & 15 == 0 && message[6..8] != [0, 0]
}

/// Asks over `connections`, each with so many `queries` on the way, for this time.
///
/// # Errors
/// There is no socket, or the server does not answer.
pub(crate) async fn run(
    protocol: Protocol,
    server: SocketAddr,
    query: &[u8],
    (connections, queries): (usize, usize),
    time: Duration,
) -> io::Result<Done> {
    let config = settings::client(protocol.alpn(), None)?;
    let endpoint = settings::endpoint((Ipv4Addr::LOCALHOST, 0).into(), false)?;
    let (tally, until) = (Rc::new(Tally::default()), Instant::now() + time);
    let sent: Rc<[u8]> = match protocol {
        Protocol::Doh3 => http3::request(SERVER_NAME, query).into(),
        Protocol::Doq | Protocol::Handshakes => framed(query).into(),
    };
    let mut tasks: JoinSet<io::Result<()>> = JoinSet::new();
    let sequences = if protocol == Protocol::Handshakes { 1 } else { connections };
    for _ in 0..sequences {
        let client = Client {
            endpoint: endpoint.clone(),
            config: config.clone(),
            server,
            protocol,
            sent: Rc::clone(&sent),
            tally: Rc::clone(&tally),
            until,
        };
        tasks.spawn_local(async move {
            match protocol {
                Protocol::Handshakes => client.handshakes().await,
                Protocol::Doq | Protocol::Doh3 => client.ask(queries).await,
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(io::Error::other)??;
    }
    endpoint.close(protocol.no_error(), b"");
    let _ = timeout(ANSWER_TIMEOUT, endpoint.wait_idle()).await;
    Ok(Done { answered: tally.answered.get(), lost: tally.lost.get(), connections: tally.connections.get() })
}

/// What has the connections of one client after another.
struct Client {
    endpoint: Endpoint,
    config: ClientConfig,
    server: SocketAddr,
    protocol: Protocol,
    /// What is sent on each stream.
    sent: Rc<[u8]>,
    tally: Rc<Tally>,
    until: Instant,
}

impl Client {
    async fn connect(&self) -> io::Result<Connection> {
        let connecting = self.endpoint.connect_with(self.config.clone(), self.server, SERVER_NAME);
        let connecting = connecting.map_err(io::Error::other)?;
        timeout(ANSWER_TIMEOUT, connecting)
            .await
            .map_err(|_| io::ErrorKind::TimedOut)?
            .map_err(io::Error::other)
    }

    /// Completes handshakes, one after another.
    async fn handshakes(&self) -> io::Result<()> {
        let mut failures = 0;
        while Instant::now() < self.until {
            match self.connect().await {
                Ok(connection) => {
                    connection.close(DOQ_NO_ERROR, b"");
                    failures = 0;
                    count(&self.tally.answered);
                    count(&self.tally.connections);
                }
                Err(error) if failures + 1 == MOST_FAILURES => return Err(error),
                Err(_) => {
                    failures += 1;
                    count(&self.tally.lost);
                }
            }
        }
        Ok(())
    }

    /// Keeps so many queries on the way, on a new connection whenever one ends or does not answer.
    async fn ask(&self, queries: usize) -> io::Result<()> {
        let mut failures = 0;
        while Instant::now() < self.until {
            let before = self.tally.answered.get();
            let connected = match self.connect().await {
                Ok(connection) => self.ask_over(&connection, queries).await,
                Err(error) => {
                    count(&self.tally.lost);
                    Err(error)
                }
            };
            if let Err(error) = connected {
                failures = if self.tally.answered.get() > before { 0 } else { failures + 1 };
                if failures == MOST_FAILURES {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn ask_over(&self, connection: &Connection, queries: usize) -> io::Result<()> {
        count(&self.tally.connections);
        // It must stay open as long as the connection.
        let control = match self.protocol {
            Protocol::Doh3 => {
                let mut control = connection.open_uni().await?;
                control.write_all(&http3::CONTROL).await?;
                Some(control)
            }
            Protocol::Doq | Protocol::Handshakes => None,
        };
        let (mut tasks, begun) = (JoinSet::new(), Rc::new(Cell::new(0)));
        for _ in 0..queries {
            let begun = Rc::clone(&begun);
            let (connection, sent, tally) =
                (connection.clone(), Rc::clone(&self.sent), Rc::clone(&self.tally));
            let (protocol, until) = (self.protocol, self.until);
            tasks.spawn_local(async move {
                while Instant::now() < until && begun.get() < OF_A_CONNECTION {
                    count(&begun);
                    match timeout(ANSWER_TIMEOUT, ask(&connection, protocol, &sent)).await {
                        Ok(Ok(())) => count(&tally.answered),
                        Ok(Err(error)) => {
                            count(&tally.lost);
                            return Err(error);
                        }
                        Err(_) => {
                            count(&tally.lost);
                            return Err(io::ErrorKind::TimedOut.into());
                        }
                    }
                }
                Ok(())
            });
        }
        let mut result = Ok(());
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended.map_err(io::Error::other)? {
                // The others fail at once, and are lost, too.
                connection.close(self.protocol.no_error(), b"");
                result = Err(error);
            }
        }
        drop(control);
        connection.close(self.protocol.no_error(), b"");
        result
    }
}

/// Has one query answered, on a stream of its own.
async fn ask(connection: &Connection, protocol: Protocol, sent: &[u8]) -> io::Result<()> {
    let (mut to_server, mut from_server) = connection.open_bi().await?;
    to_server.write_all(sent).await?;
    to_server.finish()?;
    let received = from_server.read_to_end(MOST).await.map_err(io::Error::other)?;
    let message = match protocol {
        Protocol::Doh3 => http3::body(&received),
        Protocol::Doq | Protocol::Handshakes => received.get(2..).map(<[u8]>::to_vec),
    };
    match message.is_some_and(|message| is_answer(&message)) {
        true => Ok(()),
        false => Err(io::Error::other("a response has no answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_the_id_0() {
        let expected = b"\0\0\0\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x10\0\x01";
        assert_eq!(query_of("www.example.", 16), expected);
        assert_eq!(framed(&query("a"))[..4], [0, 19, 0, 0]);
    }

    #[test]
    fn an_answer_is_a_response_with_records() {
        let mut message = query("www.example");
        assert!(!is_answer(&message));
        message[2] |= 0x80;
        assert!(!is_answer(&message));
        message[7] = 1;
        assert!(is_answer(&message));
        message[3] |= 2;
        assert!(!is_answer(&message));
    }
}
