//! Datagram service: one loop (`worker`) over several ways of moving datagrams (`mmsg`, `plain`). Sockets are made
//! in `socket`. Queues of a network card are another way, in `crate::xdp`.

mod control;
mod endpoint;
mod mmsg;
mod plain;
mod raw;
mod segment;
mod socket;
mod worker;

pub(crate) use endpoint::{Endpoint, Tally, count_send_error};
pub(crate) use socket::{adopt, open, set_freebind, spread};
pub(crate) use worker::{Datagrams, Worker, spawn, stride};
