//! Everything around the query path: configuration, command line, control, metrics, logs, loading of zones.
//! A library only so that tests and fuzz targets reach it; the one program is `main.rs`.
//!
//! | module | does |
//! |---|---|
//! | [`cli`] | the command line, and through it the man page and completions |
//! | [`config`] | reads and checks the configuration; its reference page |
//! | [`serve`] | `nomen serve` from start to end; [`app`] is what runs meanwhile |
//! | [`zones`] | which zones there are, loading and reloading them |
//! | [`handler`] | joins `net` and `engine` |
//! | [`control`], [`metrics`], [`logging`], [`querylog`], [`signals`] | what operators see and say |
//! | [`privileges`] | giving up root |
//! | [`message`], [`words`] | queries made and messages printed; words for people |
//! | [`tools`] | every verb but `nomen serve`; only [`cli`] knows them |
#![forbid(unsafe_code)]

pub mod app;
pub mod builtin;
pub mod cli;
pub mod config;
pub mod control;
pub mod handler;
pub mod logging;
pub mod message;
pub mod metrics;
pub mod privileges;
pub mod querylog;
pub mod serve;
pub mod signals;
pub mod tools;
pub mod words;
pub mod zones;
