//! What Linux gives threads of the CPUs: less than others, or sooner. No crate in use has these calls.

pub(crate) mod idle;
pub mod slice;
