//! The serving parts, assembled from the configuration: engine, listeners, recursive service.
//!
//! | module | what it has |
//! |---|---|
//! | [`frontend`] | the engine with its workers, the listeners, the query log |
//! | [`recursive`] | cache, resolver, validation, trust anchors, the local copy of the root zone |
//! | [`issuing`] | the certificate that this server orders from a CA |
//! | [`descriptors`] | the file descriptor share of each part |
#![forbid(unsafe_code)]

pub mod descriptors;
pub mod frontend;
pub mod issuing;
pub mod recursive;
