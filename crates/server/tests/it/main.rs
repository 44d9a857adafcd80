//! The whole program from outside: `nomen` is started as a process, asked over sockets and stopped by signals.

mod broken;
mod control;
mod images;
mod metrics;
mod query;
mod recursion;
mod reload;
mod serve;
mod support;
mod transfers;
