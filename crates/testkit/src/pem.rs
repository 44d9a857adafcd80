//! PEM (RFC 7468), for certificates that tests make.

/// Returns bytes as PEM with this label.
pub fn pem(label: &str, bytes: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    // Writing to a string does not fail.
    let _ = wire::text::write_base64(bytes, &mut text);
    text + &format!("\n-----END {label}-----\n")
}
