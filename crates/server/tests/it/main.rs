//! The whole program from outside: `nomen` is started as a process, asked over sockets and stopped by signals.

mod broken;
mod catalogs;
mod changes;
mod control;
mod folders;
mod images;
mod iterate;
mod log;
mod metrics;
mod primary;
mod query;
mod recursion;
mod reload;
mod secondary;
mod serve;
mod signatures;
mod support;
mod systemd;
mod transfers;
mod trial;
mod update;
mod validate;
