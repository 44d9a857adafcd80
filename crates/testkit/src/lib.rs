//! What tests share: zone builders, reference models, random names.
