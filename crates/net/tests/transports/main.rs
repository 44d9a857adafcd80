//! The transports against real sockets on loopback: what a scripted handler decides must be what clients see.

mod asking;
mod descriptors;
mod later;
mod link;
mod put_off;
mod script;
mod tcp;
mod udp;
mod xdp;
