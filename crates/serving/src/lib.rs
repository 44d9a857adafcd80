//! The serving parts, assembled from the configuration: engine, listeners, recursive service.
//!
//! | module | what it has |
//! |---|---|
//! | `answering` | what threads have in common that clients wait for |
//! | [`frontend`] | the engine with its workers, the listeners, the query log |
//! | `own_zones` | the zones served here, as the resolver sees them |
//! | [`hosts`] | names of other servers, resolved |
//! | [`recursive`] | cache, resolver, validation, trust anchors, the local copy of the root zone |
//! | [`issuing`] | the certificate that this server orders from a CA |
//! | [`parental`] | what the servers of a parent zone have of a zone; NOTIFY to them |
//! | [`descriptors`] | the file descriptor share of each part |
#![forbid(unsafe_code)]

mod answering;
pub mod descriptors;
pub mod frontend;
pub mod hosts;
pub mod issuing;
mod own_zones;
pub mod parental;
pub mod recursive;
