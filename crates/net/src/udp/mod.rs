//! Datagram service: one loop (`service`) over several back ends that move datagrams (trait in `datagrams`):
//! `mmsg`, `plain`, and in `crate::xdp` the queues of a network card. `worker` is the thread of a socket,
//! `socket` opens sockets, `proxied` takes headers of proxies off a batch.
//!
//! Tests compare `mmsg` with `plain`.

mod control;
mod datagrams;
mod endpoint;
mod mmsg;
mod plain;
mod proxied;
mod raw;
mod segment;
mod service;
mod shares;
mod socket;
mod worker;

pub(crate) use datagrams::{Datagrams, QueueFill, stride};
pub(crate) use endpoint::{Endpoint, Tally, count_send_error};
pub(crate) use proxied::ProxiedDatagrams;
pub(crate) use service::DatagramService;
pub(crate) use socket::{open, open_by, set_buffers, spread, take_over, take_over_by};
pub(crate) use worker::spawn;
