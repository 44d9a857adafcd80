//! The transports against real sockets on loopback: clients must see what a scripted handler decides.

mod asking;
mod challenges;
mod descriptors;
mod http;
mod http3;
mod https;
mod later;
mod link;
mod put_off;
mod quic;
mod script;
mod tcp;
mod tls;
mod udp;
mod xdp;
