//! `nomen token`: makes a token of the HTTP API. The secret goes to standard error, the block for the
//! configuration, which has only its hash, to standard output.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE32_NOPAD;

use crate::args::TokenArgs;
use config::api::TokenHash;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE};
use config::table::value::{Value, quote};

/// Random bytes of a secret: 192 bits.
const SECRET_BYTES: usize = 24;
/// The word before the random part, by which scanners of source code recognise a secret.
const SECRET_WORD: &str = "nomen_";

/// Runs the verb; returns the exit code.
pub fn run(args: &TokenArgs) -> u8 {
    let mut random = [0; SECRET_BYTES];
    if let Err(fault) = getrandom::fill(&mut random) {
        eprintln!("nomen: the system has no random numbers: {fault}");
        return EXIT_OUTSIDE;
    }
    // Letters and digits alone: a double click selects all of it, and no shell reads them otherwise.
    let secret = format!("{SECRET_WORD}{}", BASE32_NOPAD.encode(&random).to_ascii_lowercase());
    let Some(block) = block(args, &secret) else {
        eprintln!("nomen: the token has no hash");
        return EXIT_FAULTS;
    };
    eprintln!("The secret of token {}, which is stored nowhere:\n\n    {secret}\n", args.name);
    eprintln!("For the configuration:\n");
    crate::print_out(&block);
    EXIT_OK
}

/// Returns the block of a token with this secret.
fn block(args: &TokenArgs, secret: &str) -> Option<String> {
    let hash = TokenHash(digest(&SHA256, secret.as_bytes()).as_ref().try_into().ok()?);
    let mut right = format!("right = {}", args.right.render()?);
    if !args.zone.is_empty() {
        let zones: Vec<String> = args.zone.iter().filter_map(Value::render).collect();
        right += &format!(", zones = [{}]", zones.join(", "));
    }
    let mut block = format!("[[api.token]]\nname = {}\nhash = {}\n", quote(&args.name.0), hash.render()?);
    if let Some(expires) = &args.expires {
        block += &format!("expires = {}\n", expires.render()?);
    }
    Some(block + &format!("rights = [{{ {right} }}]\n"))
}
