//! Datagram sockets of QUIC. Unlike those of plain DNS they send no fragments: QUIC finds the MTU of a path
//! itself, and sets the options for that where the socket is first used.

use std::net::{SocketAddr, UdpSocket};

use socket2::Socket;

use crate::config::ListenerConfig;
use crate::refusal::BindRefusal;
use crate::udp;

/// Opens and binds one socket. Several `shared` sockets can be bound to one address; the kernel then selects
/// by a hash of both addresses and ports, so that the datagrams of a connection reach the same one.
pub(crate) fn open(
    addr: SocketAddr,
    config: &ListenerConfig,
    shared: bool,
) -> Result<UdpSocket, BindRefusal> {
    udp::open_by(addr, config, shared, prepare)
}

/// Takes over a socket bound by another process, such as systemd.
pub(crate) fn take_over(socket: &UdpSocket, config: &ListenerConfig) -> Result<(), BindRefusal> {
    udp::take_over_by(socket, config, prepare)
}

fn prepare(socket: &Socket, _: SocketAddr, config: &ListenerConfig) -> Result<(), BindRefusal> {
    udp::set_buffers(socket, config);
    Ok(())
}
