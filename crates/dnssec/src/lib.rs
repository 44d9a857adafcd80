//! DNSSEC: canonical form, NSEC and NSEC3, signatures.
