//! Everything around the query path: configuration, command line, control, metrics, logs, loading of zones.
//! A library only so that tests and fuzz targets reach it; the one program is `main.rs`.

pub mod config;
pub mod logging;
pub mod privileges;
